/** `mrtr-gateway probe URL`: shows what a server supports, and how to configure the gateway for it. */
import { systemClock } from '../lib/clock.ts';
import { formatPath } from '../config/load/problem.ts';
import type { RouteConfig } from '../config/schema.ts';
import { validate } from '../config/load/validate.ts';
import { jsonText, reportText } from '../probe/print.ts';
import { ProbeFailure } from '../probe/probe-failure.ts';
import { probe } from '../probe/probe.ts';
import type { Command } from './arguments.ts';
import { EXIT, type ExitCode } from './exit-codes.ts';
import type { Host } from './arguments.ts';

export type ProbeCommand = Extract<Command, { kind: 'probe' }>;

/** Longer than any probe. This timer keeps the process alive, since the timers of the clock do not. */
const AWAKE_MS = 3_600_000;

/** Prints the report, or one line that says why there is none. @returns the exit code */
export async function probeUpstream(command: ProbeCommand, host: Host): Promise<ExitCode> {
  const upstream = upstreamOf(command);
  if (typeof upstream === 'string') {
    host.stderr.write(`mrtr-gateway: ${upstream}\n`);
    return EXIT.usage;
  }
  const interrupted = interruptionOf(host);
  const awake = setTimeout(() => {}, AWAKE_MS);
  try {
    const { timeoutMs, call } = command;
    const options = { upstream, timeoutMs, call, signal: interrupted.signal };
    const report = await probe(options, systemClock);
    const early = interrupted.exitCode();
    if (early !== null) return early;
    const coloured = host.stdout.isTTY === true && !host.env['NO_COLOR'];
    host.stdout.write(command.json ? jsonText(report) : reportText(report, coloured));
    return EXIT.ok;
  } catch (error) {
    if (!(error instanceof ProbeFailure)) throw error;
    const exitCode = interrupted.exitCode();
    if (exitCode !== null) return exitCode;
    host.stderr.write(`mrtr-gateway: ${error.message}\n`);
    return EXIT.upstream;
  } finally {
    clearTimeout(awake);
  }
}

const FLAGS = [
  ['headers', '--header'],
  ['env', '--env'],
  ['command', '--stdio'],
  ['args', '--stdio'],
] as const;

/** Builds the upstream section from the arguments. @returns it, or the first problem */
function upstreamOf({ upstream, headers }: ProbeCommand): RouteConfig['upstream'] | string {
  const server = typeof upstream === 'string' ? { url: upstream, headers } : upstream;
  const { config, problems } = validate({ routes: [{ upstream: server }] });
  const route = config?.routes[0];
  if (route !== undefined) return route.upstream;
  const problem = problems?.[0];
  if (problem === undefined) return 'no upstream to probe';
  const field = formatPath(problem.path);
  const flag = FLAGS.find(([part]) => field.includes(part))?.[1] ?? 'URL';
  return `${flag}: ${problem.text}`;
}

function interruptionOf(host: Host): { signal: AbortSignal; exitCode(): ExitCode | null } {
  const abort = new AbortController();
  let exitCode: ExitCode | null = null;
  const on = (code: ExitCode) => () => {
    exitCode ??= code;
    abort.abort();
  };
  host.on('SIGINT', on(EXIT.interrupted));
  host.on('SIGTERM', on(EXIT.terminated));
  return { signal: abort.signal, exitCode: () => exitCode };
}
