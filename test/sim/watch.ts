/**
 * A history runs in one turn of the event loop, so nothing in its thread sees that it never ends. Another thread does: it says
 * which seed that is, and ends the process.
 */
import { Worker } from 'node:worker_threads';

const THREAD = `
const { writeSync } = require('node:fs');
const { workerData: { shared, longestMs } } = require('node:worker_threads');
for (;;) {
  const seed = Atomics.load(shared, 0);
  if (Atomics.wait(shared, 0, seed, longestMs) !== 'timed-out') continue;
  writeSync(2, \`the history of seed \${seed} is stuck: it does not end within \${longestMs / 1_000} s
To see it again: npm run sim -- --seed \${seed}
\`);
  process.kill(process.pid, 'SIGKILL');
}`;

/** @returns what to call with the seed of each history that begins */
export function watch(longestMs: number): (seed: number) => void {
  const shared = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT));
  const thread = new Worker(THREAD, { eval: true, workerData: { shared, longestMs } });
  thread.unref();
  return (seed) => {
    Atomics.store(shared, 0, seed);
    Atomics.notify(shared, 0);
  };
}
