/** How long a client may take to send a request and to take its answer. */

export interface ClientTimeouts {
  /** From the first byte of a request to the end of its head, in ms. */
  readonly headMs: number;
  /** From the first byte of a request to its last, however slowly it drips, in ms. */
  readonly requestMs: number;
  /** How often connections are looked at for the two above, in ms. */
  readonly checkEveryMs: number;
  /** Between two requests on one connection, in ms. */
  readonly idleMs: number;
  /** How long bytes may wait for a client that takes none of them, in ms. */
  readonly writeStallMs: number;
}

export const CLIENT_TIMEOUTS: ClientTimeouts = {
  headMs: 10_000,
  requestMs: 30_000,
  checkEveryMs: 1_000,
  // Longer than the 60 s of the usual load balancers, which then close first.
  idleMs: 65_000,
  writeStallMs: 60_000,
};
