/** Plays the histories of as many seeds as given, or those of them that have a theme, until one breaks the law given; prints which. */
import './engine/pins.ts';
import './network/tcp-model.ts';
import { readCorpus } from './corpus.ts';
import { type History, historyOf } from './fleet/history.ts';
import { play } from './fleet/play.ts';
import { themeOf } from './fleet/themes.ts';

const [most = 0, law = 0] = process.argv.slice(2).map(Number);
const [, , , , theme = ''] = process.argv;

/** What breaks a law without a defect says nothing of one. */
const open = new Set(readOpen());

export interface UntilBroken {
  readonly seeds: number;
  readonly violation: string | null;
}

function next(seed: number): void {
  const isPlayed = !open.has(seed) && (theme === '' || themeOf(seed) === theme);
  const violations = isPlayed ? play(historyOf(seed)).violations : [];
  const violation = violations.find((one) => one.startsWith(`law ${law}:`)) ?? null;
  if (violation === null && seed < most) return void setImmediate(next, seed + 1);
  const result: UntilBroken = { seeds: seed, violation };
  process.stdout.write(JSON.stringify(result), () => process.exit());
}

/** Long histories have seeds of their own. */
function isShort({ calls }: History): boolean {
  return calls.every(({ id }) => id < 8);
}

function readOpen(): number[] {
  const kept = readCorpus(new URL('open.yaml', import.meta.url)).map(({ history }) => history);
  return kept.filter(isShort).map(({ seed }) => seed);
}

setImmediate(next, 1);
