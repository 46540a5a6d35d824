/** Plays the histories of the seeds given, in their order, and prints the digest of each. */
import './engine/pins.ts';
import './network/tcp-model.ts';
import { historyOf } from './fleet/history.ts';
import { play } from './fleet/play.ts';

const seeds = process.argv.slice(2).map(Number);

setImmediate(() => {
  const digests = Object.fromEntries(seeds.map((seed) => [seed, play(historyOf(seed)).digest]));
  process.stdout.write(`${JSON.stringify(digests)}\n`, () => process.exit());
});
