/** Why a request has no reply when it is the fault of nobody upstream. */
export class ClientLeft extends Error {
  readonly code = 'client_left';

  constructor(method: string) {
    super(`nobody waits for the reply to ${method} any more`);
    this.name = 'ClientLeft';
  }
}
