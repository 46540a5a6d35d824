/** `mrtr-gateway probe URL`: shows what a server supports, and how to configure the gateway for it. */
import { systemClock } from '../lib/clock.ts';
import { formatPath } from '../config/load/problem.ts';
import type { RouteConfig } from '../config/schema.ts';
import { validate } from '../config/load/validate.ts';
import { jsonText, reportText } from '../probe/print.ts';
import { ProbeFailure } from '../probe/probe-failure.ts';
import { probe } from '../probe/probe.ts';
import type { CommandOf, Host } from './arguments.ts';
import { endedBy, EXIT, type ExitCode } from './exit-codes.ts';

export type ProbeCommand = CommandOf<'probe'>;

const DRAW_EVERY_MS = 1_000;
const CLEAR_LINE = '\r\u001b[K';

/** Prints the report, or one line that says why there is none. @returns the exit code */
export async function probeUpstream(command: ProbeCommand, host: Host): Promise<ExitCode> {
  const upstream = upstreamOf(command);
  if (typeof upstream === 'string') {
    host.stderr.write(`mrtr-gateway: ${upstream}\n`);
    return EXIT.usage;
  }
  const { signal } = endedBy(host);
  const progress = showTime(command, host);
  try {
    const { timeoutMs, call } = command;
    const options = { upstream, timeoutMs, call, signal };
    const report = await probe(options, systemClock).finally(progress.end);
    if (signal.aborted) return signal.reason as ExitCode;
    const coloured = host.stdout.isTTY === true && !host.env['NO_COLOR'];
    host.stdout.write(command.json ? jsonText(report) : reportText(report, coloured));
    return EXIT.ok;
  } catch (error) {
    if (!(error instanceof ProbeFailure)) throw error;
    if (signal.aborted) return signal.reason as ExitCode;
    host.stderr.write(`mrtr-gateway: ${error.message}\n`);
    return error.code === 'unknown_tool' ? EXIT.usage : EXIT.upstream;
  }
}

/** Shows on a terminal how long the probe takes. Its timer keeps the process alive, since those of the clock do not. */
function showTime({ timeoutMs }: ProbeCommand, { stderr }: Host): { readonly end: () => void } {
  const startedAtMs = systemClock.elapsed();
  const draw = () => {
    if (stderr.isTTY !== true) return;
    const seconds = Math.round((systemClock.elapsed() - startedAtMs) / 1_000);
    stderr.write(`${CLEAR_LINE}probing: ${seconds} s, at most ${timeoutMs / 1_000} s`);
  };
  const timer = setInterval(draw, DRAW_EVERY_MS);
  draw();
  return {
    end: () => {
      clearInterval(timer);
      if (stderr.isTTY === true) stderr.write(CLEAR_LINE);
    },
  };
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
