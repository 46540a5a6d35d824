/** Several upstream servers, each a process with a loopback address of its own. */
import { Child } from './child.ts';

export const UPSTREAM = new URL('./upstream-process.ts', import.meta.url);

export interface Upstreams {
  readonly origins: readonly [string, ...string[]];
  stop(): Promise<void>;
}

/**
 * Starts so many. Each address has all local ports for itself; where there is only 127.0.0.1 (not on
 * Linux), they share it.
 */
export async function startUpstreams(count: number): Promise<Upstreams> {
  const started = await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const host = process.platform === 'linux' ? `127.0.0.${index + 2}` : '127.0.0.1';
      const child = Child.node(`upstream ${index + 1}`, UPSTREAM, [host]);
      return { child, origin: `http://${host}:${await child.port()}` };
    }),
  );
  const [first, ...others] = started.map(({ origin }) => origin);
  if (first === undefined) throw new RangeError('at least one upstream');
  return {
    origins: [first, ...others],
    stop: async () => {
      await Promise.all(started.map(({ child }) => child.stop()));
    },
  };
}
