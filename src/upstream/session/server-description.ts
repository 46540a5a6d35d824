/** What the server of a session says of itself to the caller of that session. */
import type { Clock } from '../../lib/clock.ts';
import { UpstreamFailure } from '../../model/upstream-failure.ts';
import { describeServer, type InitializeResult } from './handshake.ts';
import type { LegacyRevision } from '../../protocol/meta.ts';
import type { CallerHeaders } from '../transport/transport.ts';

/** What is known of a session that another process opened. */
export interface ResumedSession {
  readonly revision: LegacyRevision;
  /** What the server said of itself in that session; `null` if that is not known here. */
  readonly initialized: InitializeResult | null;
}

/**
 * Asks what the server says of itself to the caller, with these credentials; `null` if that cannot be asked. Throws
 * UpstreamFailure.
 */
export type Describe = (headers: CallerHeaders) => Promise<InitializeResult> | null;

/** How long after a failure the server is asked again, in ms. */
const ASK_AGAIN_MS = 10_000;

export class ServerDescription {
  readonly #clock: Clock;
  readonly #describe: Describe;
  #result: InitializeResult | null = null;
  #isKnown = false;
  #asking: Promise<void> | null = null;
  #askAtMs = 0;

  constructor(clock: Clock, describe: Describe = () => null) {
    this.#clock = clock;
    this.#describe = describe;
  }

  /** Before it is known it names the revision only. */
  get result(): InitializeResult {
    if (this.#result === null) throw new Error('the session is not initialized');
    return this.#result;
  }

  /** False while it is not known here: another process was told. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  told(result: InitializeResult): void {
    this.#result = result;
    this.#isKnown = true;
  }

  adopt({ revision, initialized }: ResumedSession): void {
    this.#result = initialized ?? describeServer({}, revision);
    this.#isKnown = initialized !== null;
  }

  /**
   * Finds out what is not known, once for all who wait for it. Never rejects.
   * @returns `null` if nothing is to be waited for
   */
  learn(headers: CallerHeaders): Promise<void> | null {
    const isDue = !this.#isKnown && this.#clock.elapsed() >= this.#askAtMs;
    if (this.#asking !== null || !isDue) return this.#asking;
    const asked = this.#describe(headers);
    if (asked === null) return null;
    const { protocolVersion } = this.result;
    this.#asking = asked
      .then(
        (result) => this.told({ ...result, protocolVersion }),
        () => {
          this.#askAtMs = this.#clock.elapsed() + ASK_AGAIN_MS;
        },
      )
      .finally(() => {
        this.#asking = null;
      });
    return this.#asking;
  }
}

/** Builds the failure of a request that only a server can be sent whose description is known. */
export function notDescribed(): UpstreamFailure {
  const problem = 'it did not say what it offers to this caller';
  return new UpstreamFailure('upstream_unavailable', problem, { mayHaveActed: false });
}
