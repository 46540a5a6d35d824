/** Why the gateway could not start: one line with the cause and what to do. */

export type StartFailureCode =
  | 'port_in_use'
  | 'address_unavailable'
  | 'not_permitted'
  | 'upstream_not_mcp'
  | 'upstream_refused'
  | 'redis_unavailable';

export class StartFailure extends Error {
  readonly code: StartFailureCode;

  constructor(code: StartFailureCode, message: string) {
    super(message);
    this.name = 'StartFailure';
    this.code = code;
  }
}
