/** The exit codes of the command, which follow sysexits.h if one fits. */
import type { StartFailureCode } from '../lib/program.ts';
import type { Host } from './arguments.ts';

export const EXIT = {
  ok: 0,
  checkFailed: 1,
  usage: 64,
  upstream: 69,
  internal: 70,
  listen: 73,
  notPermitted: 77,
  config: 78,
  hungUp: 129,
  interrupted: 130,
  terminated: 143,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export const EXIT_MEANINGS: readonly (readonly [ExitCode, string])[] = [
  [EXIT.ok, 'done; when serving: drained after a signal'],
  [EXIT.checkFailed, '"check" or "doctor" found problems, or "connect" cannot change a file'],
  [EXIT.usage, 'wrong flags or arguments, or a Node.js that is too old'],
  [
    EXIT.upstream,
    'the upstream is not an MCP server, refuses the credentials of the gateway, or (probe) cannot be reached; or the configured Redis is unreachable',
  ],
  [EXIT.internal, 'an error of the gateway itself'],
  [EXIT.listen, 'the address to listen on is in use, or is not an address of this machine'],
  [EXIT.notPermitted, 'the process is not allowed to listen on that address'],
  [EXIT.config, 'the configuration file cannot be read or is wrong'],
  [EXIT.hungUp, 'a second SIGHUP, or SIGHUP during start'],
  [EXIT.interrupted, 'a second SIGINT, or SIGINT during start'],
  [EXIT.terminated, 'a second SIGTERM, or SIGTERM during start'],
];

const START_FAILURES: Readonly<Record<StartFailureCode, ExitCode>> = {
  port_in_use: EXIT.listen,
  address_unavailable: EXIT.listen,
  not_permitted: EXIT.notPermitted,
  upstream_not_mcp: EXIT.upstream,
  upstream_refused: EXIT.upstream,
  redis_unavailable: EXIT.upstream,
  other_version: EXIT.internal,
};

export function exitCodeOfStart(code: StartFailureCode): ExitCode {
  return START_FAILURES[code];
}

/** Lets a signal end a command that serves nothing. The reason of the abortion is the exit code. */
export function endedBy(host: Host): AbortController {
  const end = new AbortController();
  host.on('SIGINT', () => end.abort(EXIT.interrupted));
  host.on('SIGTERM', () => end.abort(EXIT.terminated));
  return end;
}
