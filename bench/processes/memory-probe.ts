/**
 * Loaded into a process before its own program (`--import`): collects garbage and tells how much memory
 * the process holds, whenever its parent asks. Needs `--expose-gc`.
 */
export interface Memory {
  readonly rssBytes: number;
  readonly heapUsedBytes: number;
  /** What objects of the heap hold outside of it. */
  readonly externalBytes: number;
}

process.on('message', (asked) => {
  if (asked !== 'memory') return;
  void (async () => {
    // What a first pass finds dead may keep other things alive until their finalizers have run.
    for (let pass = 0; pass < 3; pass += 1) {
      collect();
      await new Promise((resolve) => setImmediate(resolve));
    }
    const { rss, heapUsed, external } = process.memoryUsage();
    const memory: Memory = { rssBytes: rss, heapUsedBytes: heapUsed, externalBytes: external };
    process.send?.({ memory });
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
