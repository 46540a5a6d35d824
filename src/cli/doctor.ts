/** `mrtr-gateway doctor`: says what a gateway would meet, and what to do about it. */
import { ConfigError } from '../config/load/problem.ts';
import { examine } from '../doctor/doctor.ts';
import { finder, jsonOf, lineOf, summaryOf, worstOf, type Finding } from '../doctor/finding.ts';
import { systemClock } from '../lib/clock.ts';
import type { CommandOf, Host } from './arguments.ts';
import { readServed } from './configured.ts';
import { endedBy, EXIT, type ExitCode } from './exit-codes.ts';
import { openFileLimit, openFilesNeeded } from './open-files.ts';

/** Any interval: the timers of the clock do not keep the process alive. */
const ALIVE_MS = 1_000;

/** Prints a line for each check as soon as all before it are there. @returns the exit code */
export async function doctor(
  command: CommandOf<'doctor'>,
  words: readonly string[],
  host: Host,
): Promise<ExitCode> {
  const { signal } = endedBy(host);
  const keepAlive = setInterval(() => {}, ALIVE_MS);
  const isColored = host.stdout.isTTY === true && !host.env['NO_COLOR'];
  const found: Finding[] = [];
  try {
    for (const next of begin(command, words, host, signal)) {
      const findings = await next;
      if (signal.aborted) return signal.reason as ExitCode;
      found.push(...findings);
      if (command.json) continue;
      for (const finding of findings) host.stdout.write(lineOf(finding, isColored));
    }
  } finally {
    clearInterval(keepAlive);
  }
  host.stdout.write(command.json ? jsonOf(found) : summaryOf(found));
  return worstOf(found) === 'failed' ? EXIT.checkFailed : EXIT.ok;
}

function begin(
  { serves, timeoutMs }: CommandOf<'doctor'>,
  words: readonly string[],
  { env }: Host,
  signal: AbortSignal,
): readonly Promise<readonly Finding[]>[] {
  try {
    const { config, warnings: risks, movable } = readServed(serves, words, env);
    const openFiles = { limit: openFileLimit(), needed: openFilesNeeded(config) };
    const clock = systemClock;
    return examine({ config, risks, movable, openFiles, timeoutMs, signal, clock, env });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return [Promise.resolve(error.problems.map(finder('configuration').failed))];
  }
}
