/** Why a request has no reply when it is the fault of nobody upstream. */
export class ClientLeft extends Error {
  readonly code = 'client_left';

  constructor(method: string) {
    super(`the client left before the reply to ${method}`);
    this.name = 'ClientLeft';
  }
}
