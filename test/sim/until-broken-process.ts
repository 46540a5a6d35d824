/** Plays the histories of as many seeds as given, until one breaks a law, and prints which. */
import './engine/pins.ts';
import './network/tcp-model.ts';
import { historyOf } from './fleet/history.ts';
import { play } from './fleet/play.ts';

const most = Number(process.argv[2]);

export interface UntilBroken {
  readonly seeds: number;
  readonly violation: string | null;
}

function next(seed: number): void {
  const [violation = null] = play(historyOf(seed)).violations;
  if (violation === null && seed < most) return void setImmediate(next, seed + 1);
  const result: UntilBroken = { seeds: seed, violation };
  process.stdout.write(JSON.stringify(result), () => process.exit());
}

setImmediate(next, 1);
