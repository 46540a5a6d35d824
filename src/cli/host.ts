/** The parts of the process that the command uses, so that tests can replace them. */

export type HostEvent =
  'SIGTERM' | 'SIGINT' | 'SIGHUP' | 'uncaughtException' | 'unhandledRejection';

export interface Host {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdout: NodeJS.WritableStream & { readonly isTTY?: boolean };
  readonly stderr: NodeJS.WritableStream & { readonly isTTY?: boolean };
  on(event: HostEvent, listener: (reason: unknown) => void): unknown;
}
