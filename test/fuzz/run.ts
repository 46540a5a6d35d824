/**
 * Runs fuzz targets for a while, and prints the input that one of them handles wrongly, with the seed that finds it again.
 *
 *     npm run fuzz -- [TARGET...] [--seconds N] [--seed N]
 */
import { parseArgs } from 'node:util';
import { fuzz } from './target.ts';
import { TARGETS } from './targets.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
  },
});
const [seconds, seed] = [
  wholeNumber('--seconds', values.seconds),
  wholeNumber('--seed', values.seed),
];
const names = TARGETS.map(({ name }) => name);
const unknown = positionals.find((name) => !names.includes(name));
if (unknown !== undefined)
  throw new TypeError(`no target "${unknown}": expected ${names.join(', ')}`);

for (const target of TARGETS) {
  if (positionals.length > 0 && !positionals.includes(target.name)) continue;
  try {
    const limits = { seed, runs: Number.MAX_SAFE_INTEGER, withinMs: seconds * 1_000 };
    const inputs = await fuzz(target, limits);
    console.log(`${target.name}: ${inputs} inputs in ${seconds} s, seed ${seed}`);
  } catch (error) {
    const { message, cause } = error as Error;
    console.error(`${target.name}: ${message}\n${cause instanceof Error ? cause.stack : ''}`);
    process.exitCode = 1;
  }
}

function wholeNumber(flag: string, text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 0) return value;
  throw new TypeError(`${flag}: expected a whole number, got "${text}"`);
}
