/**
 * `npm run sim:mutants`: puts each mutant of `mutants.yaml` into the sources, one in a process, and plays histories until one
 * breaks the law that it should break. Prints the mutants that live, and ends with 1 if there are any.
 *
 *     npm run sim:mutants                    all of them
 *     npm run sim:mutants -- lease answer    those that have one of these words
 */
import { spawnSync } from 'node:child_process';
import type { UntilBroken } from '../until-broken-process.ts';
import { type Mutant, MUTANT_FLAG, MUTANTS } from './mutants.ts';

/** A history that never ends says nothing. */
const MAX_MS = 600_000;
const HOOK = new URL('hook.ts', import.meta.url).href;

const words = process.argv.slice(2);
const mutants = MUTANTS.filter(
  ({ what }) => words.length === 0 || words.some((word) => what.includes(word)),
);
const living = mutants.filter((mutant) => {
  const { isKilled, how } = fateOf(mutant);
  console.log(`${isKilled ? 'killed' : 'LIVES '}  ${mutant.what}: ${how}`);
  return !isKilled;
});
console.log(`${mutants.length - living.length} of ${mutants.length} mutants are killed`);
process.exitCode = living.length === 0 ? 0 : 1;

function fateOf({ what, law, within }: Mutant): { isKilled: boolean; how: string } {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [
      '--expose-internals',
      '--no-warnings',
      '--import',
      HOOK,
      'test/sim/until-broken-process.ts',
      String(within),
      String(law),
    ],
    { env: { ...process.env, [MUTANT_FLAG]: what }, encoding: 'utf8', timeout: MAX_MS },
  );
  if (status !== 0) return { isKilled: false, how: `no law: ${stderr.trim().slice(-1_000)}` };
  const { seeds, violation } = JSON.parse(stdout) as UntilBroken;
  if (violation === null)
    return { isKilled: false, how: `law ${law} was not broken in ${seeds} seeds` };
  return { isKilled: true, how: `seed ${seeds} breaks ${violation}` };
}
