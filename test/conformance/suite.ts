/** Runs the official conformance suite against a URL, and reads what it wrote down and what it requires. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { z } from 'zod';

type Revision = '2026-07-28' | '2025-11-25';

const PACKAGE = new URL('../../node_modules/@modelcontextprotocol/conformance/', import.meta.url);
const PROGRAM = fileURLToPath(new URL('dist/index.js', PACKAGE));
// A directory for each scenario that was started: `server-<scenario>-<time>`.
const RESULT_DIRECTORY = /^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/;
/**
 * The longest time that a run may take, in ms, less than a hook may. In front of a server over stdio, each of the 30
 * scenarios starts a process: 25 s on two slow cores, and twice that when other tests run beside it.
 */
const RUN_TIMEOUT_MS = 110_000;
/** The time that a test with a run of the suite may take, in ms: what the run leaves is for the gateway. */
export const SUITE_TEST_MS = 120_000;

const Check = z.object({
  id: z.string(),
  status: z.enum(['SUCCESS', 'FAILURE', 'WARNING', 'SKIPPED', 'INFO']),
  errorMessage: z.string().optional(),
});
const Requirements = z.object({
  server: z.array(z.string()),
  not_scored: z.array(z.object({ scenario: z.string(), leg: z.enum(['server', 'client']) })),
});
const ExpectedFailures = z.object({ server: z.array(z.string()) });

export type Check = z.infer<typeof Check>;

export interface SuiteRun {
  readonly exitCode: number | null;
  /** Everything the suite printed. */
  readonly output: string;
  /** The checks of every scenario that came to its end, by the name of the scenario. */
  readonly scenarios: ReadonlyMap<string, readonly Check[]>;
}

/** Runs everything that the revision requires of a server; the suite itself judges by the file of expected failures. */
export async function runSuite(
  url: string,
  expectedFailures: URL | null,
  revision: Revision = '2026-07-28',
): Promise<SuiteRun> {
  const directory = await mkdtemp(join(tmpdir(), 'conformance-'));
  try {
    const target = ['server', '--url', url, '--requirements', revision];
    const expected =
      expectedFailures === null ? [] : ['--expected-failures', fileURLToPath(expectedFailures)];
    const ended = await runProgram([...target, '-o', directory, ...expected]);
    return { ...ended, scenarios: await readScenarios(directory) };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Runs one scenario, of those that the revision requires or of an extension. @returns its checks */
export async function runScenario(
  url: string,
  scenario: string,
  directory: string,
): Promise<readonly Check[]> {
  const target = ['server', '--url', url, '--scenario', scenario, '--spec-version', '2026-07-28'];
  const { output } = await runProgram([...target, '--force', '-o', directory]);
  const checks = (await readScenarios(directory)).get(scenario);
  if (checks === undefined) throw new Error(`the scenario broke off: ${output}`);
  return checks;
}

/** The scenarios that count, and those which the suite runs beside them for information. */
export async function readRequirements(
  revision: Revision = '2026-07-28',
): Promise<{ required: string[]; unscored: string[] }> {
  const file = new URL(`requirements/${revision}.yaml`, PACKAGE);
  const { server, not_scored } = Requirements.parse(parse(await readFile(file, 'utf8')));
  const unscored = not_scored.filter(({ leg }) => leg === 'server').map(({ scenario }) => scenario);
  return { required: server, unscored };
}

/** The entries of a file of expected failures, each `scenario:check`. */
export async function readExpectedFailures(file: URL): Promise<string[]> {
  return ExpectedFailures.parse(parse(await readFile(file, 'utf8'))).server;
}

async function runProgram(args: readonly string[]): Promise<Omit<SuiteRun, 'scenarios'>> {
  const child = spawn(process.execPath, [PROGRAM, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: RUN_TIMEOUT_MS,
    killSignal: 'SIGKILL',
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  }
  await once(child, 'close');
  if (child.signalCode !== null)
    throw new Error(`the suite was stopped by ${child.signalCode}: ${output}`);
  return { exitCode: child.exitCode, output };
}

async function readScenarios(directory: string): Promise<Map<string, readonly Check[]>> {
  const scenarios = new Map<string, readonly Check[]>();
  for (const name of await readdir(directory)) {
    const scenario = RESULT_DIRECTORY.exec(name)?.[1];
    if (scenario === undefined) throw new Error(`not a result of the suite: ${name}`);
    // A scenario that broke off leaves its directory empty.
    if (!(await readdir(join(directory, name))).includes('checks.json')) continue;
    const text = await readFile(join(directory, name, 'checks.json'), 'utf8');
    scenarios.set(scenario, z.array(Check).parse(JSON.parse(text)));
  }
  return scenarios;
}
