/**
 * Serves `server/discover` from the legacy `initialize` result, cached and refreshed in the background. A client that
 * waits, or gets an error, falls back to the legacy era, so a stale result beats a late one, and a vague one beats none.
 */
import { type Clock, Closing, sleep } from '../lib/clock.ts';
import { discoverResult } from '../protocol/translate/edge-result.ts';
import { objectMember, type JsonObject } from '../protocol/json.ts';
import { notDescribed } from '../upstream/session/server-description.ts';
import type { Session } from '../upstream/session/session.ts';
import type { InitializeResult } from '../upstream/session/handshake.ts';
import type { SessionPool } from '../sessions/session-pool.ts';
import { asUpstreamFailure, type UpstreamFailureCode } from '../model/upstream-failure.ts';
import { failureOfRequest } from '../model/upstream-failures.ts';
import { type CallReply, type EdgeRequest, callerKey } from '../model/request.ts';
import type { Greeting } from '../upstream/legacy-server.ts';
import { sessionOwnerOf } from '../sessions/session-owner.ts';
import { LruMap } from '../lib/containers.ts';

export interface DiscoveryOptions {
  readonly pool: SessionPool;
  readonly clock: Clock;
  readonly supportedVersions: () => readonly string[];
  /** Whether the gateway makes tasks of tool calls. */
  readonly offersTasks: boolean;
  /** See `DiscoverContext`. */
  readonly extensions: readonly string[];
  /** How long a client can cache the result, and after which the gateway asks the server again, in ms. */
  readonly ttlMs: number;
  /** Waits for a greeting that is on its way. Resolves to `null` if there was none. Never rejects. */
  readonly lastGreeting: () => Promise<Greeting | null>;
  /** What the server said to the gateway itself, perhaps before it started; `null` if that is unknown. */
  readonly ownGreeting: () => { readonly result: JsonObject; readonly hasStream: boolean } | null;
  /** After which time a caller is told what is known without its server, in ms. */
  readonly firstWaitMs: number;
  /** The number of callers whose result is cached. */
  readonly maxCallers: number;
}

interface Finding {
  readonly initialized: InitializeResult;
  readonly canPush: boolean;
  readonly atMs: number;
}

/** After this many times `ttlMs`, cached capabilities are too old to refuse a request because of them. */
const TTLS_TO_TRUST = 10;

/** What is certain of a server that said nothing: the gateway is for its tools. */
const CERTAIN = { result: { capabilities: { tools: {} } }, hasStream: false };
/** The failures that a caller has to know of: others are no reason to say nothing. */
const DECISIVE: ReadonlySet<UpstreamFailureCode> = new Set(['unauthorized', 'server_is_modern']);

export class Discovery {
  readonly #options: DiscoveryOptions;
  /** By principal and credentials: callers can see different things. */
  readonly #known: LruMap<string, Finding>;
  /** What callers got whose credentials the server refused. */
  readonly #refused: LruMap<string, CallReply>;
  readonly #refreshing = new Map<string, Promise<Finding>>();
  readonly #asked = new WeakSet<Session>();
  #hasStream = false;

  constructor(options: DiscoveryOptions) {
    this.#options = options;
    this.#known = new LruMap(options.maxCallers);
    this.#refused = new LruMap(options.maxCallers);
  }

  /** Returns the server's capabilities as this caller saw them, or `null` if they are unknown or too old. */
  capabilitiesFor(request: EdgeRequest): JsonObject | null {
    const key = callerKey(request);
    const known = this.#known.get(key);
    if (known === undefined) return null;
    this.#refreshIfOld(known, key, request);
    const { clock, ttlMs } = this.#options;
    const tooOld = clock.elapsed() - known.atMs > ttlMs * TTLS_TO_TRUST;
    return tooOld ? null : known.initialized.capabilities;
  }

  /** Replies to `server/discover` within `firstWaitMs`. Never throws. */
  async discover(request: EdgeRequest): Promise<CallReply> {
    const key = callerKey(request);
    const known = this.#known.get(key);
    if (known !== undefined) {
      this.#refreshIfOld(known, key, request);
      return this.#reply(known);
    }
    const { clock, firstWaitMs } = this.#options;
    const over = new Closing();
    const late = sleep(clock, firstWaitMs, over).then(() => this.#replyWithoutServer(key));
    const reply = await Promise.race([this.#find(key, request), late]);
    over.abort();
    return reply ?? this.#replyWithoutServer(key);
  }

  /** Asks the server. Never rejects. @returns `null` if that says nothing of this caller */
  async #find(key: string, request: EdgeRequest): Promise<CallReply | null> {
    try {
      const found = (await this.#greeted(key, request)) ?? (await this.#refresh(key, request));
      this.#refused.delete(key);
      return this.#reply(found);
    } catch (error) {
      const failure = asUpstreamFailure(error, false);
      const reply: CallReply = { kind: 'failed', failure: failureOfRequest(failure) };
      if (failure.code === 'unauthorized') this.#refused.set(key, reply);
      return DECISIVE.has(failure.code) ? reply : null;
    }
  }

  /** Replies with what this caller was told last, or what the gateway itself was told, or what is certain. */
  #replyWithoutServer(key: string): CallReply {
    const refused = this.#refused.get(key);
    if (refused !== undefined) return refused;
    const { result, hasStream } = this.#options.ownGreeting() ?? CERTAIN;
    return this.#discovered(result, hasStream, 0);
  }

  /** Takes over what the server said in its greeting to a caller with these credentials, such as at the start. */
  async #greeted(key: string, { caller }: EdgeRequest): Promise<Finding | null> {
    const greeting = await this.#options.lastGreeting();
    if (greeting?.headers !== JSON.stringify(caller.headers)) return null;
    const finding = this.#findingOf(greeting);
    this.#known.set(key, finding);
    return finding;
  }

  #findingOf({ initialized, hasStream }: Greeting): Finding {
    return { initialized, canPush: hasStream, atMs: this.#options.clock.elapsed() };
  }

  /** Refreshes an old finding in the background. */
  #refreshIfOld({ atMs }: Finding, key: string, request: EdgeRequest): void {
    const { clock, ttlMs } = this.#options;
    if (clock.elapsed() - atMs > ttlMs) void this.#refresh(key, request).catch(() => {});
  }

  #refresh(key: string, request: EdgeRequest): Promise<Finding> {
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

  async #look(request: EdgeRequest): Promise<Finding> {
    const { session, giveBack } = await this.#options.pool.borrow(sessionOwnerOf(request));
    try {
      if (!session.isDescribed) throw notDescribed();
      return {
        initialized: session.initializeResult,
        canPush: await this.#canPush(session, request),
        atMs: this.#options.clock.elapsed(),
      };
    } finally {
      giveBack();
    }
  }

  /** Tries once per session, not once per caller, whether the server offers a standalone stream. */
  async #canPush(session: Session, { caller }: EdgeRequest): Promise<boolean> {
    if (this.#hasStream) return true;
    if (claimsNotifications(session.initializeResult) && !this.#asked.has(session)) {
      this.#asked.add(session);
      await session.openStandaloneStream(caller.headers);
    }
    this.#hasStream = session.standaloneStreamOpen;
    return session.canPush || session.canPushLater;
  }

  #reply({ initialized, canPush }: Finding): CallReply {
    return this.#discovered(initialized.raw, canPush, this.#options.ttlMs);
  }

  #discovered(initialized: JsonObject, canPush: boolean, ttlMs: number): CallReply {
    const { supportedVersions, offersTasks, extensions, pool } = this.#options;
    const result = discoverResult(initialized, {
      supportedVersions: supportedVersions(),
      ttlMs,
      canReceiveNotifications: canPush && pool.canListen,
      offersTasks,
      extensions,
    });
    return { kind: 'result', result };
  }
}

/** Returns true if the server could send change notifications. Otherwise it needs no standalone stream. */
function claimsNotifications({ capabilities }: InitializeResult): boolean {
  return ['tools', 'prompts', 'resources'].some((name) => {
    const capability = objectMember(capabilities, name) ?? {};
    return capability['listChanged'] === true || capability['subscribe'] === true;
  });
}
