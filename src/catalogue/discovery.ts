/**
 * What `server/discover` tells: read from a legacy `initialize` result, kept, and refreshed behind the
 * client's back. Clients that wait for it, or get an error, fall back to the legacy era, so the last
 * good answer is better than a fresh one.
 */
import { type Clock, sleep } from '../lib/clock.ts';
import { discoverResult } from '../protocol/translate/discover-result.ts';
import { objectMember, type JsonObject } from '../protocol/json/json.ts';
import type { Session } from '../upstream/session/session.ts';
import type { InitializeResult } from '../upstream/session/handshake.ts';
import type { SessionPool } from '../upstream/pool/session-pool.ts';
import { asUpstreamFailure, UpstreamFailure } from '../upstream/failure.ts';
import { callerKey } from './cache-keys.ts';
import { failureOfRequest } from '../model/upstream-failures.ts';
import { type CallAnswer, type EdgeRequest, sessionOwnerOf } from '../model/request.ts';
import { RecentMap } from '../lib/lru-map.ts';

export interface DiscoveryOptions {
  readonly pool: SessionPool;
  readonly clock: Clock;
  readonly supportedVersions: () => readonly string[];
  /** How long a client may keep the answer, and after which we look again, in ms. */
  readonly ttlMs: number;
  /** How long a client waits when there has never been an answer, in ms. */
  readonly firstWaitMs: number;
  /** Of how many callers the answer is remembered. */
  readonly maxCallers: number;
}

interface Known {
  readonly initialized: InitializeResult;
  readonly canPush: boolean;
  readonly atMs: number;
}

/** After so many times its time to live, what was seen of a server is no ground to refuse a request on. */
const TTLS_TO_TRUST = 10;

export class Discovery {
  readonly #options: DiscoveryOptions;
  /** By principal and credentials: what one caller may see is not told to another. */
  readonly #known: RecentMap<string, Known>;
  readonly #refreshing = new Map<string, Promise<Known>>();
  readonly #asked = new WeakSet<Session>();
  #hasStream = false;

  constructor(options: DiscoveryOptions) {
    this.#options = options;
    this.#known = new RecentMap(options.maxCallers);
  }

  /** The server's capabilities as this caller saw them not too long ago; `null` when they are not known. */
  capabilitiesFor(request: EdgeRequest): JsonObject | null {
    const key = callerKey(request);
    const known = this.#known.get(key);
    if (known === undefined) return null;
    this.#refreshIfOld(known, key, request);
    const { clock, ttlMs } = this.#options;
    const tooOld = clock.now() - known.atMs > ttlMs * TTLS_TO_TRUST;
    return tooOld ? null : known.initialized.capabilities;
  }

  /** Answers `server/discover`; never throws, and waits at most `firstWaitMs`. */
  async discover(request: EdgeRequest): Promise<CallAnswer> {
    const key = callerKey(request);
    const { clock, firstWaitMs } = this.#options;
    const known = this.#known.get(key);
    if (known !== undefined) {
      this.#refreshIfOld(known, key, request);
      return this.#answer(known);
    }
    const late = sleep(clock, firstWaitMs).then(() => {
      throw new UpstreamFailure('upstream_timeout', 'not known yet', { mayHaveActed: false });
    });
    late.catch(() => {});
    try {
      return this.#answer(await Promise.race([this.#refresh(key, request), late]));
    } catch (error) {
      return { kind: 'failed', failure: failureOfRequest(asUpstreamFailure(error, false)) };
    }
  }

  /** Looks again behind the client's back. */
  #refreshIfOld({ atMs }: Known, key: string, request: EdgeRequest): void {
    const { clock, ttlMs } = this.#options;
    if (clock.now() - atMs > ttlMs) void this.#refresh(key, request).catch(() => {});
  }

  #refresh(key: string, request: EdgeRequest): Promise<Known> {
    const running = this.#refreshing.get(key);
    if (running !== undefined) return running;
    const refresh = this.#look(request)
      .then((known) => {
        this.#known.set(key, known);
        return known;
      })
      .finally(() => this.#refreshing.delete(key));
    this.#refreshing.set(key, refresh);
    return refresh;
  }

  async #look(request: EdgeRequest): Promise<Known> {
    const { session, release } = await this.#options.pool.borrow(sessionOwnerOf(request));
    try {
      return {
        initialized: session.initializeResult,
        canPush: await this.#canPush(session, request),
        atMs: this.#options.clock.now(),
      };
    } finally {
      release();
    }
  }

  /** Whether a server offers the stream for its own messages is asked once, not for each caller. */
  async #canPush(session: Session, { caller }: EdgeRequest): Promise<boolean> {
    if (this.#hasStream) return true;
    if (claimsNotifications(session.initializeResult) && !this.#asked.has(session)) {
      this.#asked.add(session);
      await session.openStandaloneStream(caller.headers);
    }
    this.#hasStream = session.standaloneStreamOpen;
    return this.#hasStream;
  }

  #answer(known: Known): CallAnswer {
    const { supportedVersions, ttlMs } = this.#options;
    const result = discoverResult(known.initialized.raw, {
      supportedVersions: supportedVersions(),
      ttlMs,
      canReceiveNotifications: known.canPush,
    });
    return { kind: 'result', result };
  }
}

/** Another stream is not opened to a server that would never say anything on it. */
function claimsNotifications({ capabilities }: InitializeResult): boolean {
  return ['tools', 'prompts', 'resources'].some((name) => {
    const capability = objectMember(capabilities, name) ?? {};
    return capability['listChanged'] === true || capability['subscribe'] === true;
  });
}
