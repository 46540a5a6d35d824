/** What the log knows of an event: how serious it is, its fields, and what it means, for people. */

/** From the least severe one on. */
export const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const;
export type LogLevel = (typeof LEVELS)[number];

export interface OfRoute {
  readonly route: string;
}

/** Since an event lists its fields, no argument, answer, token or sealed pointer can get into a line. */
export interface EventKind<Fields extends object> {
  readonly level: LogLevel;
  /** `undefined` if the name and the fields say what happened. */
  readonly text: string | undefined;
  /** Only their type is there. */
  readonly fields?: Fields;
}

function kindsOf(level: LogLevel) {
  return <Fields extends object = object>(text?: string): EventKind<Fields> => ({ level, text });
}

export const trace = kindsOf('trace');
export const debug = kindsOf('debug');
export const info = kindsOf('info');
export const warn = kindsOf('warn');
export const error = kindsOf('error');
export const fatal = kindsOf('fatal');
