/**
 * Takes each defence of `defences.yaml` out of a copy of this repository, and runs the test that holds it. Prints the
 * defences that no test misses, and ends with 1 if there are any. Only a failure of the named test counts, and none that
 * comes from code which no longer runs.
 *
 *     npm run test:defences              all of them, which takes about a quarter of an hour
 *     npm run test:defences -- T9 S2     those of these threats
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DEFENCES, type Defence } from './defences.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** A test that never ends without its defence has failed as well. */
const MAX_TEST_MS = 120_000;

/** What a line that was taken out wrongly leads to, and no test looks for. */
const BROKEN = /\b(?:ReferenceError|SyntaxError|ERR_MODULE_NOT_FOUND|PARSE_ERROR)\b[^\n]*/;

const asked = process.argv.slice(2);
const defences = DEFENCES.filter(({ threat }) => asked.length === 0 || asked.includes(threat));
const copy = mkdtempSync(join(tmpdir(), 'mrtr-gateway-defences-'));
const left = new Set(['node_modules', '.git', 'results', '.compile-cache']);
cpSync(ROOT, copy, { recursive: true, filter: (path) => !left.has(basename(path)) });
symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
process.once('exit', () => rmSync(copy, { recursive: true, force: true }));
process.once('SIGINT', () => process.exit(130));

const unnoticed = defences.filter((defence) => {
  const problem = problemOf(defence);
  console.log(`${problem === null ? 'held' : 'NOT HELD'}  ${described(defence)}${problem ?? ''}`);
  return problem !== null;
});
console.log(`${defences.length - unnoticed.length} of ${defences.length} defences are held`);
process.exitCode = unnoticed.length === 0 ? 0 : 1;

/** @returns what is wrong, or `null` if the test fails without the defence */
function problemOf({ file, code, without, test, title }: Defence): string | null {
  const path = join(copy, file);
  const source = readFileSync(path, 'utf8');
  const found = source.split(code).length - 1;
  if (found !== 1) return `: ${file} has the code ${found} times`;
  writeFileSync(
    path,
    source.replace(code, () => without),
  );
  try {
    const { failed, passed, broken } = outcomeOf(test, title);
    if (broken !== null) return `: the test does not run: ${broken}`;
    return failed > 0 ? null : `: ${passed} tests passed`;
  } finally {
    writeFileSync(path, source);
  }
}

interface Outcome {
  /** Tests of this title. */
  readonly failed: number;
  readonly passed: number;
  /** Why a failure says nothing of the defence; `null` if it does. */
  readonly broken: string | null;
}

/** As far as it is looked at here. */
interface Report {
  readonly testResults: readonly {
    /** Why the file could not be loaded. */
    readonly message: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

function outcomeOf(test: string, title: string): Outcome {
  const report = join(copy, 'report.json');
  rmSync(report, { force: true });
  const pattern = title.replace(/%[a-z]/g, '\0').replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const named = pattern.replaceAll('\0', '.*');
  const vitest = join(copy, 'node_modules/vitest/vitest.mjs');
  const args = ['run', test, '-t', named, '--reporter=json'];
  const { signal } = spawnSync(process.execPath, [vitest, ...args, `--outputFile=${report}`], {
    cwd: copy,
    timeout: MAX_TEST_MS,
    killSignal: 'SIGKILL',
  });
  if (signal !== null) return { failed: 1, passed: 0, broken: null };
  const { testResults } = JSON.parse(readFileSync(report, 'utf8')) as Report;
  const tests = testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .filter(({ fullName }) => new RegExp(named, 's').test(fullName));
  const failed = tests.filter(({ status }) => status === 'failed');
  const said = [
    ...testResults.map(({ message }) => message),
    ...failed.flatMap(({ failureMessages }) => failureMessages),
  ];
  return {
    failed: failed.length,
    passed: tests.filter(({ status }) => status === 'passed').length,
    broken: BROKEN.exec(said.join('\n'))?.[0] ?? null,
  };
}

function described({ threat, file, title }: Defence): string {
  return `${threat} ${file}: ${title}`;
}
