/** `mrtr-gateway [serve]`: runs a gateway until a signal or a failure ends it. */
import { inBackground, onDefect } from '../lib/background.ts';
import { systemClock, type Clock } from '../lib/clock.ts';
import { isDeepStrictEqual } from 'node:util';
import { adviseOn } from '../config/load/advice.ts';
import type { ConfigFile } from '../config/load/config-file.ts';
import {
  formatPath,
  type ConfigErrorCode,
  type FieldPath,
  type Problem,
} from '../config/load/problem.ts';
import type { Config } from '../config/schema.ts';
import type { Gateway } from '../app/gateway.ts';
import { nameOfServer } from '../routes/settings.ts';
import type { Log } from '../ops/log.ts';
import { createLog } from '../ops/write-log.ts';
import { StartFailure, type StartFailureCode } from '../lib/program.ts';
import { EXIT, exitCodeOfStart, type ExitCode } from './exit-codes.ts';
import type { Host } from './arguments.ts';

/** npm forwards the Ctrl-C that the terminal has already sent us. Both count as one press. */
const SAME_PRESS_MS = 500;

export type Start = (config: Config, options: { readonly log: Log }) => Promise<Gateway>;

/** Where the configuration comes from, if it can change. */
export interface ConfigSource {
  /** Loads the file, with the flags that take precedence. @throws ConfigError */
  readonly load: () => Config;
  readonly file: Pick<ConfigFile, 'watch' | 'close' | 'isWritten'>;
}

/**
 * Starts a gateway and waits until it has stopped.
 * @param source `null` if there is nothing to load again
 * @returns the exit code, with which the caller ends the process
 */
export async function serve(
  config: Config,
  host: Host,
  start: Start,
  clock: Clock = systemClock,
  source: ConfigSource | null = null,
): Promise<ExitCode> {
  // If the reader of the log goes away, calls must not end. The log cannot report it.
  for (const stream of [host.stdout, host.stderr]) stream.on('error', () => {});
  const log = logFor(config, host);
  const stopLogging = logDefects(log);
  const code = await new Promise<ExitCode>((finish) => {
    const crash = crashOf(host, log, finish);
    run({ config, host, log, start, source, clock }, finish, crash).catch(crash);
  });
  stopLogging();
  log.event('gateway.stopped', { code });
  return code;
}

interface Run {
  readonly config: Config;
  readonly host: Host;
  readonly log: Log;
  readonly start: Start;
  readonly source: ConfigSource | null;
  readonly clock: Clock;
}

/** @param fail says why the gateway crashed, and finishes */
async function run(
  { config, host, log, start, source, clock }: Run,
  finish: (code: ExitCode) => void,
  fail: (error: unknown) => void,
): Promise<void> {
  let gateway: Gateway | null = null;
  let stoppingSince: number | null = null;
  const stop = (atOnce: ExitCode) => {
    if (stoppingSince !== null && clock.now() - stoppingSince < SAME_PRESS_MS) return;
    if (gateway === null || stoppingSince !== null) return finish(atOnce);
    stoppingSince = clock.now();
    source?.file.close();
    gateway.drain().then(() => finish(EXIT.ok), fail);
  };
  host.on('SIGTERM', () => stop(EXIT.terminated));
  host.on('SIGINT', () => stop(EXIT.interrupted));
  // A terminal that closes is no reason to lose calls.
  const isReloadable = source !== null && !hasTerminal(host);
  const risks = riskLog({ log, source, host });
  const reload = async () => {
    let loaded: readonly Problem[] = [];
    const isInForce = await (source &&
      gateway?.reload(() => {
        const next = source.load();
        loaded = risks.of(next);
        return next;
      }));
    if (isInForce === true) risks.tell(loaded);
  };
  host.on('SIGHUP', () => (isReloadable ? inBackground(reload()) : stop(EXIT.hungUp)));
  const atStart = risks.of(config);
  try {
    gateway = await start(config, { log });
    risks.tell(atStart);
    inBackground(gateway.failure?.then(fail));
    source?.file.watch(() => inBackground(reload()));
    if (host.stdout.isTTY === true) host.stdout.write(`${banner(gateway, config)}\n`);
  } catch (error) {
    if (!(error instanceof StartFailure)) return fail(error);
    const why = { code: error.code, problems: [error.message], prefix: 'mrtr-gateway: ' };
    tellStartFailed(host, config.log.format, why);
    finish(exitCodeOfStart(error.code));
  }
}

/**
 * Returns functions that list what is valid, and risky, in the configuration that was loaded last, and that log it, if that is not
 * what was logged last.
 * @param source `null` if no field is written in a file
 */
function riskLog({ log, source, host }: Pick<Run, 'log' | 'source' | 'host'>) {
  let told: readonly Problem[] = [];
  const isWritten = (path: FieldPath) => source?.file.isWritten(path) ?? false;
  return {
    of: (config: Config) => adviseOn(config, isWritten, host.env),
    tell: (risks: readonly Problem[]) => {
      if (isDeepStrictEqual(risks, told)) return;
      told = risks;
      for (const { path, text } of risks) {
        log.event('config.risky', { field: formatPath(path), problem: text });
      }
    },
  };
}

function hasTerminal({ stdin, stdout, stderr }: Host): boolean {
  return [stdin, stdout, stderr].some((stream) => stream?.isTTY === true);
}

/** @param worker the number of the worker that logs, if there are several */
export function logFor({ log }: Config, host: Host, worker?: number): Log {
  return createLog({
    level: log.level,
    format: isReadByPeople(host, log.format) ? 'pretty' : 'json',
    destination: host.stderr,
    colors: host.stderr.isTTY === true && !host.env['NO_COLOR'],
    ...(worker === undefined ? {} : { worker }),
  });
}

/** @param format `json` or `pretty`; anything else, also a wrong word of an operator, leaves it to the terminal */
function isReadByPeople({ stderr }: Host, format: string | undefined): boolean {
  return format === 'json' ? false : format === 'pretty' || stderr.isTTY === true;
}

/** Why the gateway does not start. */
export interface StartProblems {
  readonly code: StartFailureCode | ConfigErrorCode | 'usage';
  /** Lines, each of which says what to do. */
  readonly problems: readonly string[];
  /** What begins the lines that people read. */
  readonly prefix: string;
  /** What ends them; without it, the code does. */
  readonly seeAlso?: string;
}

/**
 * Says why the gateway does not start: a line for each problem, as text for people or as the log has it.
 * @param format as the configuration, a flag or a variable has it
 */
export function tellStartFailed(
  host: Host,
  format: string | undefined,
  { code, problems, prefix, seeAlso }: StartProblems,
): void {
  if (isReadByPeople(host, format)) {
    const lines = problems.map((problem) => `${prefix}${problem} (${seeAlso ?? code})\n`);
    return void host.stderr.write(lines.join(''));
  }
  const log = createLog({ level: 'info', format: 'json', destination: host.stderr });
  for (const problem of problems) log.event('gateway.start_failed', { code, problem });
}

/** Names the URL of each route and its server, a line for each. */
function banner({ url }: Gateway, { routes }: Config): string {
  const start = 'mrtr-gateway listening on ';
  const { origin } = new URL(url);
  const lines = routes.map(({ path, upstream }) => `${origin}${path} -> ${nameOfServer(upstream)}`);
  return `${start}${lines.join(`\n${' '.repeat(start.length)}`)}`;
}

/** Logs each defect that does not end the process. @returns a function that ends that */
export function logDefects(log: Log): () => void {
  return onDefect(({ error, ...where }) =>
    log.event('gateway.defect', { ...where, problem: describe(error) }),
  );
}

/** Finishes when nothing catches an error. @returns a function that does the same for one that was caught */
export function crashOf(host: Host, log: Log, finish: (code: ExitCode) => void) {
  const crash = (reason: unknown) => {
    log.event('gateway.crashed', { problem: describe(reason) });
    finish(EXIT.internal);
  };
  for (const event of ['uncaughtException', 'unhandledRejection'] as const) host.on(event, crash);
  return crash;
}

/** Describes an error that nobody caught, with its first place in the code. */
function describe(reason: unknown): string {
  if (!(reason instanceof Error)) return String(reason);
  const where = /^\s+at .*$/m.exec(reason.stack ?? '')?.[0].trim() ?? '';
  return `${reason.name}: ${reason.message}${where === '' ? '' : ` ${where}`}`;
}
