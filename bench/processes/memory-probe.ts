/**
 * Loaded into a process before its own program (`--import`): collects garbage and tells how large the heap
 * is, whenever its parent asks. Needs `--expose-gc`.
 */
import { getHeapStatistics } from 'node:v8';

export interface Heap {
  readonly heapUsedBytes: number;
  /** What objects of the heap hold outside of it. */
  readonly externalBytes: number;
}

process.on('message', (asked) => {
  if (asked !== 'collect') return;
  void (async () => {
    // What a first pass finds dead may keep other things alive until their finalizers have run.
    for (let pass = 0; pass < 3; pass += 1) {
      collect();
      await new Promise((resolve) => setImmediate(resolve));
    }
    // Unlike process.memoryUsage() it opens no file, and so works in a process that can open no more.
    const { used_heap_size, external_memory } = getHeapStatistics();
    const heap: Heap = { heapUsedBytes: used_heap_size, externalBytes: external_memory };
    process.send?.({ heap });
  })();
});

/** The thorough kind also gives empty pages back, which would else pass for memory that is held. */
function collect(): void {
  const gc: unknown = globalThis.gc;
  if (typeof gc !== 'function') throw new Error('--expose-gc is missing');
  gc({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}

process.once('disconnect', () => process.exit());
// The channel must not be what keeps the program alive.
process.channel?.unref();
