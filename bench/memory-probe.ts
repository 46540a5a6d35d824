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
  // What a first pass finds dead may keep other things alive until their finalizers have run.
  globalThis.gc?.();
  setImmediate(() => {
    globalThis.gc?.();
    const { rss, heapUsed, external } = process.memoryUsage();
    const memory: Memory = { rssBytes: rss, heapUsedBytes: heapUsed, externalBytes: external };
    process.send?.({ memory });
  });
});
process.once('disconnect', () => process.exit());
// The channel must not be what keeps the program alive.
process.channel?.unref();
