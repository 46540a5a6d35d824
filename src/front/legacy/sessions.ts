/** The sessions of legacy clients at this process: each with a channel to its server, so many at most, none after its client is gone. */
import { inBackground } from '../../lib/background.ts';
import type { ByteBudget } from '../../lib/byte-budget.ts';
import type { Clock, Timer } from '../../lib/clock.ts';
import { randomId } from '../../lib/crypto.ts';
import type {
  ChannelOwner,
  ChannelServer,
  ChannelUse,
  PermittedChannel,
} from '../../model/channel.ts';
import { RateLimit } from '../../limits/rates.ts';
import { secondsOf } from '../../model/limited.ts';
import { asUpstreamFailure, UpstreamFailure } from '../../model/upstream-failure.ts';
import type { Log } from '../../ops/log.ts';
import { throttledLog } from '../../ops/throttled-log.ts';
import { isJsonObject, objectMember } from '../../protocol/json.ts';
import { errorLine, type ClientRequest } from './envelope.ts';
import type { StreamResponse } from './event-stream.ts';
import { Reply } from './reply.ts';
import { LegacySession } from './session.ts';

export interface LegacySessionsOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly budget: ByteBudget;
}

/** Whose session it is. */
export type SessionOwner = Omit<ChannelOwner, 'name'>;

/** What came of `initialize`. */
export interface Opened {
  /** The JSON of the response. */
  readonly line: string;
  /** The key of the session; `null` if there is none. */
  readonly key: string | null;
  readonly httpStatus: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** For whom a session is opened, and with which server. */
export interface SessionOpening {
  readonly server: ChannelServer;
  readonly owner: SessionOwner;
  /** Of the caller, for the server. */
  readonly headers: Readonly<Record<string, string>>;
}

/** A session, and how long it lives. */
interface Entry {
  readonly key: string;
  /** In the log, also in that of its process. */
  readonly name: string;
  readonly session: LegacySession;
  readonly server: ChannelServer;
  readonly owner: SessionOwner;
  channel: PermittedChannel | null;
  use: ChannelUse;
  /** Runs while nobody uses it. */
  idle: Timer | null;
  /** It ends as soon as no request is open. */
  isRetired: boolean;
}

/** One framework opens a session for each call, and some clients leave theirs behind. */
const MAX_PER_PRINCIPAL = 16;
/** Of all callers. A session with a modern server over stdio takes no permit, and nothing else bounds those. */
const MAX_SESSIONS = 10_000;
/** A client that begins anew whenever something fails would keep the machine busy with starts. */
const MAX_OPENINGS = { requests: 300, windowMs: 60_000 };

export class LegacySessions {
  readonly #options: LegacySessionsOptions;
  /** Used last, last. */
  readonly #entries = new Map<string, Entry>();
  readonly #ending = new Set<Promise<void>>();
  /** By key. */
  readonly #reopening = new Map<string, Promise<Opened>>();
  /** By principal. */
  readonly #openings = new RateLimit(MAX_OPENINGS, 'legacy-sessions', null);
  readonly #refused: (refused: { readonly route: string; readonly problem: string }) => void;

  constructor(options: LegacySessionsOptions) {
    this.#options = options;
    const { clock, log } = options;
    this.#refused = throttledLog(clock, (latest, requests) =>
      log.event('legacy_session.refused', { ...latest, requests }),
    );
  }

  /** @returns `null` if this process has no such session on this route */
  find(key: string, route: string): LegacySession | null {
    const entry = this.#entries.get(key);
    return entry?.server.route === route ? entry.session : null;
  }

  /**
   * Opens a session. Never rejects.
   * @param line the `initialize` of the client
   * @param client whether it is there still
   * @param key of the session; one of its own by default
   * @param isSecondTry whether the server was asked once in the way in which it was spoken to before
   */
  async open(
    { server, owner, headers }: SessionOpening,
    line: string,
    message: ClientRequest,
    client: Pick<StreamResponse, 'isOpen'>,
    key = randomId(),
    isSecondTry = false,
  ): Promise<Opened> {
    const entry = this.#create(server, owner, key);
    const { session } = entry;
    const { keepsNothing } = server;
    try {
      await this.#admit(owner);
      const named = { ...owner, name: entry.name };
      entry.channel = await server.open(named, session, () => inBackground(this.#end(entry)));
      session.connect(entry.channel);
      const reply = new Reply();
      session.request([{ line, message }], reply, 'json', headers);
      const text = await reply.within(server.initializeTimeoutMs, this.#options.clock);
      if (text === null) throw NO_RESPONSE;
      const revision = revisionIn(text);
      const isOpen = revision !== null && !session.isOver && client.isOpen;
      if (isOpen) this.#opened(entry, revision);
      else {
        const ended = this.#end(entry);
        const isRefused = revision === null && client.isOpen && !isSecondTry;
        // It can have been upgraded in place.
        if (isRefused && (await server.hasChanged(keepsNothing))) {
          await ended;
          return await this.open({ server, owner, headers }, line, message, client, key, true);
        }
        inBackground(ended);
      }
      const { httpStatus, headers: told } = reply;
      return { line: text, key: isOpen ? key : null, httpStatus, headers: told };
    } catch (error) {
      const { message: problem } = asUpstreamFailure(error, false);
      this.#refused({ route: server.route, problem });
      inBackground(this.#end(entry));
      return { line: errorLine(message.id, problem), key: null, httpStatus: 200, headers: {} };
    }
  }

  /**
   * Opens a session once more that a process before this one had, with a server that keeps nothing of it.
   * @param line the `initialize` of the client, as one line
   * @returns what came of `initialize`
   */
  reopen(
    opening: SessionOpening,
    key: string,
    line: string,
    message: ClientRequest,
  ): Promise<Opened> {
    const running = this.#reopening.get(key);
    if (running !== undefined) return running;
    const reopened = this.open(opening, line, message, { isOpen: true }, key).then((opened) => {
      this.#reopening.delete(key);
      // Its client has said so to the process before.
      const said = { type: 'other', method: null, cancels: null } as const;
      const sent = this.#entries.get(key)?.session.send(INITIALIZED, said, opening.headers);
      if (sent !== undefined) inBackground(sent);
      return opened;
    });
    this.#reopening.set(key, reopened);
    return reopened;
  }

  /** Ends a session at the wish of its client. */
  end(key: string): void {
    const entry = this.#entries.get(key);
    if (entry !== undefined) inBackground(this.#end(entry));
  }

  /** Ends the sessions with a server as soon as none of their requests is open. */
  retire(server: ChannelServer): void {
    for (const entry of [...this.#entries.values()]) {
      if (entry.server === server) this.#retire(entry);
    }
  }

  /** Has clients open their standalone streams elsewhere, and ends each session as soon as none of its requests is open. */
  drain(): void {
    for (const entry of [...this.#entries.values()]) {
      entry.session.closeStandalone();
      this.#retire(entry);
    }
  }

  /** Ends all sessions. Resolves when no process of theirs is left. */
  async close(): Promise<void> {
    for (const entry of [...this.#entries.values()]) inBackground(this.#end(entry));
    await Promise.all(this.#ending);
  }

  #create(server: ChannelServer, owner: SessionOwner, key: string): Entry {
    const { clock, budget, log } = this.#options;
    const { route, learnsRoots } = server;
    const name = key.slice(0, 8);
    const session = new LegacySession({
      ...{ clock, learnsRoots },
      held: budget.open(route),
      onUse: (use) => this.#used(entry, use),
      onEnd: () => inBackground(this.#end(entry)),
      onLost: (what) => log.event('legacy_session.lost', { route, session: name, what }),
    });
    const entry: Entry = {
      ...{ key, name, session, server, owner },
      channel: null,
      use: 'none',
      idle: null,
      isRetired: false,
    };
    return entry;
  }

  /**
   * Ends the longest idle session if there are too many of all, or of a principal.
   * @throws UpstreamFailure if none is idle, or the principal opens them too fast
   */
  async #admit({ principal }: SessionOwner): Promise<void> {
    const waitMs = principal === null ? 0 : await this.#openings.take(principal);
    if (waitMs > 0) throw tooFast(waitMs);
    if (this.#entries.size >= MAX_SESSIONS) {
      const idle = [...this.#entries.values()].find(({ use }) => use === 'none');
      if (idle === undefined) throw TOO_MANY_IN_ALL;
      inBackground(this.#end(idle));
    }
    if (principal === null) return;
    const own = [...this.#entries.values()].filter((each) => each.owner.principal === principal);
    if (own.length < MAX_PER_PRINCIPAL) return;
    const victim = own.find(({ use }) => use === 'none') ?? own.find(({ use }) => use === 'stream');
    if (victim === undefined) throw TOO_MANY;
    inBackground(this.#end(victim));
  }

  #opened(entry: Entry, revision: string): void {
    const { key, name, session, server } = entry;
    session.agreed(revision);
    this.#entries.set(key, entry);
    const opened = { route: server.route, session: name, revision };
    this.#options.log.event('legacy_session.opened', opened);
    this.#used(entry, 'none');
  }

  #used(entry: Entry, use: ChannelUse): void {
    entry.use = use;
    const { key, channel, server } = entry;
    if (!this.#entries.has(key)) return;
    entry.idle?.cancel();
    entry.idle = null;
    channel?.use(use);
    if (use !== 'request' && entry.isRetired) return inBackground(this.#end(entry));
    // Used last, last.
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    if (use !== 'none') return;
    const end = () => inBackground(this.#end(entry));
    entry.idle = this.#options.clock.setTimer(server.idleTimeoutMs, end);
  }

  #retire(entry: Entry): void {
    entry.isRetired = true;
    this.#used(entry, entry.use);
  }

  /** Ends a session, and its process. Resolves when nothing of it is left. */
  async #end(entry: Entry): Promise<void> {
    const { key, name, session, server, channel } = entry;
    entry.idle?.cancel();
    if (this.#entries.delete(key)) {
      const ended = { route: server.route, session: name };
      this.#options.log.event('legacy_session.ended', ended);
    }
    session.end(OVER);
    const ending = channel?.end() ?? Promise.resolve();
    this.#ending.add(ending);
    await ending.finally(() => this.#ending.delete(ending));
  }
}

const OVER = 'The session is over';
const INITIALIZED = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' });
const NO_RESPONSE = new UpstreamFailure(
  'upstream_timeout',
  'the server did not respond to initialize in time',
  { mayHaveActed: false },
);
const tooFast = (waitMs: number) =>
  new UpstreamFailure(
    'upstream_busy',
    `this caller has opened ${MAX_OPENINGS.requests} sessions within a minute; the next one is allowed in ${secondsOf(waitMs)} s`,
    { mayHaveActed: false },
  );
const TOO_MANY_IN_ALL = new UpstreamFailure(
  'upstream_busy',
  `the gateway has ${MAX_SESSIONS} sessions of legacy clients, all of them in use`,
  { mayHaveActed: false },
);
const TOO_MANY = new UpstreamFailure(
  'upstream_busy',
  `this caller has ${MAX_PER_PRINCIPAL} sessions, all of them in use`,
  { mayHaveActed: false },
);

/** Returns the revision that a response to `initialize` agrees to; `null` if it is an error. */
function revisionIn(text: string): string | null {
  const response: unknown = JSON.parse(text);
  const result = isJsonObject(response) ? objectMember(response, 'result') : undefined;
  const version = result?.['protocolVersion'];
  return typeof version === 'string' ? version : null;
}
