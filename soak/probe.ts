/**
 * Loaded into a gateway before its own program (`--import`, with `--expose-gc`): collects garbage and tells what is left,
 * whenever its parent asks.
 */
import { readdirSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers';
import { getHeapSpaceStatistics } from 'node:v8';

/** What a process holds after its garbage was collected. */
export interface Held {
  /** Objects, without what V8 makes of the program. */
  readonly heapBytes: number;
  /** Bytecode and machine code, which V8 makes of functions as they are used more. */
  readonly codeBytes: number;
  readonly rssBytes: number;
  readonly openFiles: number;
  /** Sockets, servers, pipes, child processes and watchers of Node.js. */
  readonly handles: number;
  /** Timers of Node.js that wait. */
  readonly timers: number;
}

/** Node.js tells only of timers that keep the process alive, and those of the gateway do not. */
const started = new Set<NodeJS.Timeout & { readonly _destroyed?: boolean }>();
const PRUNE_AT = 5_000;

function waiting(): number {
  for (const timer of started) if (timer._destroyed !== false) started.delete(timer);
  return started.size;
}

for (const name of ['setTimeout', 'setInterval'] as const) {
  const counted = new Proxy(timers[name], {
    apply(start, self, args) {
      const timer = Reflect.apply(start, self, args) as NodeJS.Timeout;
      started.add(timer);
      if (started.size % PRUNE_AT === 0) waiting();
      return timer;
    },
  });
  Object.assign(timers, { [name]: counted });
  Object.assign(globalThis, { [name]: counted });
}
syncBuiltinESMExports();

process.on('message', (asked) => {
  if (asked !== 'held' && asked !== 'least') return;
  void (async () => {
    const timersNow = waiting();
    // What a first pass finds dead may keep other things alive until their finalizers have run. The thorough kind takes
    // so long that a process under load would seem to hang.
    const [passes, flavor] = asked === 'least' ? [3, 'last-resort'] : [1, 'regular'];
    for (let pass = 0; pass < passes; pass += 1) {
      collect({ type: 'major', execution: 'sync', flavor });
      await new Promise((resolve) => setImmediate(resolve));
    }
    const [codeBytes, heapBytes] = usedHeap();
    const held: Held = {
      heapBytes,
      codeBytes,
      rssBytes: process.memoryUsage.rss(),
      openFiles: readdirSync('/proc/self/fd').length,
      handles: process.getActiveResourcesInfo().filter((kind) => kind.endsWith('Wrap')).length,
      timers: timersNow,
    };
    process.send?.({ held });
  })();
});

/** @returns the bytes of code, and of all else */
function usedHeap(): [code: number, other: number] {
  const sums: [number, number] = [0, 0];
  for (const { space_name: name, space_used_size: bytes } of getHeapSpaceStatistics()) {
    sums[/^(code|trusted)_/.test(name) ? 0 : 1] += bytes;
  }
  return sums;
}

function collect(options: object): void {
  (globalThis.gc as unknown as (options: object) => void)(options);
}

process.once('disconnect', () => process.exit());
// The channel must not be what keeps the program alive.
process.channel?.unref();
