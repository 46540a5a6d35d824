/** Every process that stands between a client and the upstream. */
import { Child } from '../processes/child.ts';
import { startDropIn, startGateway } from '../processes/gateway-process.ts';
import type { Path } from './calls.ts';
import { startNginx } from './nginx.ts';

const BLIND_PROXY = new URL('./blind-proxy-process.ts', import.meta.url);
const BARE_PROXY = new URL('./bare-proxy-process.ts', import.meta.url);

export interface Paths {
  readonly paths: readonly Path[];
  /** What a reader must know of how they were started. */
  readonly notes: readonly string[];
  stop(): Promise<void>;
}

/** @param earlier the folder of another version of the gateway, or `null` */
export async function startPaths(
  upstream: string,
  withNginx: boolean,
  folder: string,
  earlier: URL | null,
): Promise<Paths> {
  const upstreamUrl = `${upstream}/mcp`;
  const blind = Child.node('the blind proxy', BLIND_PROXY, [upstream]);
  const blindOrigin = `http://127.0.0.1:${await blind.port()}`;
  const bare = Child.node('the bare proxy', BARE_PROXY, [upstream]);
  const bareOrigin = `http://127.0.0.1:${await bare.port()}`;
  const nginx = withNginx ? await startNginx(upstream, folder) : null;
  const gateway = await startGateway({ upstreamUrl, folder });
  const dropIn = await startDropIn(upstreamUrl);
  const sseUrl = `${upstream}/sse`;
  const sse = await startGateway({ upstreamUrl: sseUrl, folder, transport: 'http-sse' });
  const before =
    earlier === null ? null : await startGateway({ upstreamUrl, folder, checkout: earlier });
  const pathOf = (
    name: Path['name'],
    started: { readonly origin: string; readonly child: Child } | null,
  ) => (started === null ? [] : [{ name, origin: started.origin, pid: started.child.pid }]);
  const paths: Path[] = [
    { name: 'direct', origin: upstream, pid: null },
    ...pathOf('nginx', nginx),
    { name: 'http-proxy', origin: blindOrigin, pid: blind.pid },
    { name: 'bare', origin: bareOrigin, pid: bare.pid },
    ...pathOf('gateway', gateway),
    ...pathOf('drop-in', dropIn),
    ...pathOf('http-sse', sse),
    ...pathOf('earlier', before),
  ];
  const notes = [
    ...leftOutNote('this version', gateway.leftOut),
    ...leftOutNote('the earlier version', before?.leftOut ?? []),
  ];
  const stop = async () => {
    const children = [gateway, dropIn, sse, before, nginx].map((one) => one?.child);
    await Promise.all([blind, bare, ...children].map(async (child) => child?.stop()));
  };
  return { paths, notes, stop };
}

function leftOutNote(version: string, keys: readonly string[]): string[] {
  if (keys.length === 0) return [];
  return [`The configuration of ${version} has no ${keys.join(', ')}: left out.`];
}
