/** Why the gateway did not start: one line that names the cause and the way out. */

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
