/**
 * Measures the gateway beside its peers in one run and prints what it found. Everything runs in
 * processes of its own, on loopback, and ends with this one.
 */
import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { measureCalls, type Path } from './calls/calls.ts';
import { Child } from './processes/child.ts';
import { startGateway, whatRuns } from './processes/gateway-process.ts';
import { describeMachine } from './machine/machine.ts';
import { nginxVersion, startNginx } from './calls/nginx.ts';
import { readOptions, USAGE, type BenchOptions } from './options.ts';
import { measureFootprint } from './process/footprint.ts';
import { measureOfficial } from './questions/official.ts';
import { measureParked } from './parked/parked.ts';
import { measureQuestions } from './questions/questions.ts';
import { measureRelayed } from './relay/relayed.ts';
import { reportText, type Report } from './report/report.ts';
import { measureSeal } from './seal/seal.ts';

const UPSTREAM = new URL('./processes/upstream-process.ts', import.meta.url);
const BLIND_PROXY = new URL('./calls/blind-proxy-process.ts', import.meta.url);

const options = readOptions(process.argv.slice(2));
if (options === null) {
  console.log(USAGE);
} else {
  const folder = await mkdtemp(join(tmpdir(), 'mrtr-gateway-bench-'));
  // However this process ends, it takes what it has made along; the children end themselves likewise.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  process.once('SIGINT', () => process.exit(130));
  process.once('SIGTERM', () => process.exit(143));
  setTimeout(() => {
    console.error(`given up after ${options.giveUpMs / 1_000} s`);
    process.exit(1);
  }, options.giveUpMs).unref();
  const report = await run(options, folder);
  console.log(options.json ? JSON.stringify(report, null, 2) : reportText(report));
  process.exit();
}

async function run(options: BenchOptions, folder: string): Promise<Report> {
  const startedAt = performance.now();
  const machine = describeMachine();
  const upstreamChild = Child.node('the upstream', UPSTREAM, []);
  const upstream = `http://127.0.0.1:${await upstreamChild.port()}`;
  const nginx = nginxVersion();
  const { paths, stop } = await startPaths(upstream, nginx !== null, folder, options.earlier);
  const gateway = paths.find(({ name }) => name === 'gateway')?.origin ?? '';
  progress('1/7 calls without questions');
  const calls = await measureCalls(paths, upstream, options.calls);
  progress('2/7 round trip of a question');
  const questions = await measureQuestions(gateway, upstream, options.questions);
  await stop();
  progress('3/7 a whole question of a real server');
  const official = await measureOfficial(folder, options.official);
  progress('4/7 retries through another replica');
  const relayed = await measureRelayed(upstream, folder, options.relay);
  progress('5/7 memory and sockets of parked calls');
  const parked = await measureParked(upstream, folder, options.parked);
  progress('6/7 start and memory of the process');
  const footprint = await measureFootprint(upstream, folder, options.earlier, options.footprint);
  progress('7/7 seals');
  const seal = await measureSeal(options.seal);
  await upstreamChild.stop();
  const elapsedMs = performance.now() - startedAt;
  return {
    machine,
    nginx,
    runs: whatRuns(),
    calls,
    questions,
    official,
    relayed,
    parked,
    footprint,
    seal,
    elapsedMs,
  };
}

/** Starts every process that stands between a client and the upstream. */
async function startPaths(
  upstream: string,
  withNginx: boolean,
  folder: string,
  checkout: URL | null,
) {
  const blind = Child.node('the blind proxy', BLIND_PROXY, [upstream]);
  const blindOrigin = `http://127.0.0.1:${await blind.port()}`;
  const upstreamUrl = `${upstream}/mcp`;
  const gateway = await startGateway({ upstreamUrl, folder });
  const sseUrl = `${upstream}/sse`;
  const sse = await startGateway({ upstreamUrl: sseUrl, folder, transport: 'http-sse' });
  const earlier = checkout === null ? null : await startGateway({ upstreamUrl, folder, checkout });
  const nginx = withNginx ? await startNginx(upstream, folder) : null;
  const paths: Path[] = [
    { name: 'direct', origin: upstream, pid: null },
    ...(nginx === null
      ? []
      : [{ name: 'nginx' as const, origin: nginx.origin, pid: nginx.child.pid }]),
    { name: 'http-proxy', origin: blindOrigin, pid: blind.pid },
    { name: 'gateway', origin: gateway.origin, pid: gateway.child.pid },
    { name: 'http-sse', origin: sse.origin, pid: sse.child.pid },
    ...(earlier === null
      ? []
      : [{ name: 'earlier' as const, origin: earlier.origin, pid: earlier.child.pid }]),
  ];
  const stop = async () => {
    const gateways = [gateway, sse, earlier].map((one) => one?.child.stop());
    await Promise.all([blind.stop(), nginx?.child.stop(), ...gateways]);
  };
  return { paths, stop };
}

function progress(what: string): void {
  console.error(`${what} ...`);
}
