/**
 * `npm run sim:mutants`: puts each mutant of `mutants.yaml` into the sources, one in a process, and plays histories until one
 * breaks the law that it should break. Prints the mutants that live, and ends with 1 if there are any.
 *
 *     npm run sim:mutants                    all of them
 *     npm run sim:mutants -- lease answer    those that have one of these words
 *     npm run sim:mutants -- --jobs 1        one process at a time; otherwise as many as there are cores
 */
import { execFile } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { parseArgs, promisify } from 'node:util';
import type { UntilBroken } from '../until-broken-process.ts';
import { type Mutant, MUTANT_FLAG, MUTANTS } from './mutants.ts';

/** A history that never ends says nothing. */
const MAX_MS = 600_000;
const HOOK = new URL('hook.ts', import.meta.url).href;

const { values, positionals: words } = parseArgs({
  options: { jobs: { type: 'string', default: String(availableParallelism()) } },
  allowPositionals: true,
});
const jobs = Number(values.jobs);
if (!(Number.isSafeInteger(jobs) && jobs > 0)) throw new TypeError('--jobs: expected a number');
const mutants = MUTANTS.filter(
  ({ what }) => words.length === 0 || words.some((word) => what.includes(word)),
);
const beginMs = performance.now();
const waiting = [...mutants];
let killed = 0;
await Promise.all(Array.from({ length: jobs }, work));
const seconds = ((performance.now() - beginMs) / 1_000).toFixed(0);
console.log(`${killed} of ${mutants.length} mutants are killed, in ${seconds} s`);
process.exitCode = killed === mutants.length ? 0 : 1;

async function work(): Promise<void> {
  for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
    const { isKilled, how } = await fateOf(mutant);
    if (isKilled) killed += 1;
    console.log(`${isKilled ? 'killed' : 'LIVES '}  ${mutant.what}: ${how}`);
  }
}

async function fateOf({
  what,
  law,
  within,
  theme,
}: Mutant): Promise<{ isKilled: boolean; how: string }> {
  const hooked = ['--expose-internals', '--no-warnings', '--import', HOOK];
  const play = ['test/sim/until-broken-process.ts', String(within), String(law), theme ?? ''];
  const env = { ...process.env, [MUTANT_FLAG]: what };
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [...hooked, ...play], {
      env,
      timeout: MAX_MS,
    });
    const { seeds, violation } = JSON.parse(stdout) as UntilBroken;
    if (violation !== null) return { isKilled: true, how: `seed ${seeds} breaks ${violation}` };
    return { isKilled: false, how: `law ${law} was not broken in ${seeds} seeds` };
  } catch (error) {
    return { isKilled: false, how: `no law: ${String(error).slice(-1_000)}` };
  }
}
