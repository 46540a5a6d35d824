/** What the command uses of the process it runs in, so that tests can stand in for it. */

export type HostEvent =
  'SIGTERM' | 'SIGINT' | 'SIGHUP' | 'uncaughtException' | 'unhandledRejection';

export interface Host {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdout: NodeJS.WritableStream & { readonly isTTY?: boolean };
  readonly stderr: NodeJS.WritableStream & { readonly isTTY?: boolean };
  on(event: HostEvent, listener: (reason: unknown) => void): unknown;
}
