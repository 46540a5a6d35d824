/**
 * What shows that a server sends messages to sessions that they are not for. Bridges that serve one
 * process to many clients send everything to everybody; event stores that are shared mix the streams of
 * sessions. Ids of ours are random, so an id of another session is a proof.
 */
import { LruMap } from '../lib/lru-map.ts';
import { sha256 } from '../lib/sha256.ts';
import type { UpstreamRequestId } from '../protocol/ids.ts';
import type { JsonRpcMessage } from '../protocol/json-rpc.ts';
import { isOfOurForm, randomRequestId, randomTextId } from './request-id.ts';
import type { Transport } from './transport/transport.ts';

/** Ids beyond these are forgotten, the oldest first. */
const MAX_IDS = 65_536;
const MAX_QUESTIONS = 256;
const MAX_UNFINISHED = 1_000;
/** For how long a call that ended without its reply may still be at work and ask, in ms. */
const MAY_STILL_ASK_MS = 600_000;

export interface CrossTalkOptions {
  /** The time, in ms. */
  readonly now: () => number;
  /** Whether other replicas of the gateway may use the same server. */
  readonly hasSiblings: boolean;
  /** Called once, when the server is first seen to send to sessions what belongs to others. */
  readonly onBroadcast?: () => void;
}

/** A session, as far as it can be told from another. */
export type Party = object;

interface Unfinished {
  readonly atMs: number;
  readonly by: Party;
}

export class CrossTalk {
  readonly hasSiblings: boolean;
  readonly #options: CrossTalkOptions;
  readonly #issued = new LruMap<UpstreamRequestId, Party>(MAX_IDS);
  /** The questions that came last, and the sessions that were sent them. */
  readonly #questions = new LruMap<string, Set<Party>>(MAX_QUESTIONS);
  /** Calls may last for hours: their ids are known here when `#issued` has forgotten them. */
  readonly #running = new Map<UpstreamRequestId, Party>();
  /** Calls that ended without their reply, and when, the oldest first. */
  readonly #unfinished = new Map<UpstreamRequestId, Unfinished>();
  #textIds = false;
  #broadcasts = false;
  #mixes = false;
  /** Somebody else uses the server, whose calls are not known here. */
  #strangers: boolean;

  constructor(options: CrossTalkOptions) {
    this.#options = options;
    this.hasSiblings = options.hasSiblings;
    this.#strangers = options.hasSiblings;
  }

  /** The server sends to sessions what belongs to others. */
  get broadcasts(): boolean {
    return this.#broadcasts;
  }

  /** A stream that was taken up by `Last-Event-ID` brought what belongs to another call. */
  get mixes(): boolean {
    return this.#mixes;
  }

  /** Gives an id to a request of this session. */
  issue(by: Party): UpstreamRequestId {
    const id = this.#textIds ? randomTextId() : randomRequestId();
    this.#issued.set(id, by);
    return id;
  }

  /** The server does not hold the numbers that our ids are: from here on they are texts. */
  useTextIds(): void {
    this.#textIds = true;
  }

  /** A session takes up a call that another one began. */
  takeUp(id: UpstreamRequestId, by: Party): void {
    this.#issued.set(id, by);
  }

  isIssuedBy(id: UpstreamRequestId, by: Party): boolean {
    return this.#issuerOf(id) === by;
  }

  /** A call of this session begins. */
  began(id: UpstreamRequestId, by: Party): void {
    this.#running.set(id, by);
  }

  /** @param replied false when the server may still be at work on the call */
  ended(id: UpstreamRequestId, replied: boolean): void {
    const by = this.#running.get(id);
    this.#running.delete(id);
    if (by === undefined || replied) return;
    this.#unfinished.set(id, { atMs: this.#options.now(), by });
    for (const oldest of this.#unfinished.keys()) {
      if (this.#unfinished.size <= MAX_UNFINISHED) break;
      this.#unfinished.delete(oldest);
    }
  }

  /** Hears whatever a session is sent, whether it is for that session or not. */
  heard(message: JsonRpcMessage, by: Party, transport: Transport['kind']): void {
    const id = idOfOurs(message);
    if (id === null) return;
    const issuer = this.#issuerOf(id);
    if (message.type === 'response') this.#unfinished.delete(id);
    if (issuer === by) return;
    // No other client makes ids of this form: it is one of another process of the gateway.
    const isStrange = issuer === undefined && transport === 'http-sse';
    if (isStrange) this.#strangers = true;
    if (isStrange || issuer !== undefined) this.broadcastSeen();
  }

  /** The server sends what it has for one session to all. */
  broadcastSeen(): void {
    if (this.#broadcasts) return;
    this.#broadcasts = true;
    this.#options.onBroadcast?.();
  }

  /** The server took one stream for another one. */
  mixingSeen(): void {
    this.#mixes = true;
  }

  /** Remembers that this session was sent this question. */
  asked(question: string, party: Party): void {
    const asked = this.#questions.get(question) ?? new Set();
    this.#questions.set(question, asked.add(party));
  }

  /** Whether this session was sent this question lately. */
  wasAsked(question: string, party: Party): boolean {
    return this.#questions.get(question)?.has(party) ?? false;
  }

  /** Whether a message without an id of ours, in a session with this call, can only be this call's. */
  isSurelyOf(id: UpstreamRequestId): boolean {
    if (!this.#broadcasts) return true;
    return !this.#strangers && this.#running.size === 1 && this.#running.has(id) && this.#allDone();
  }

  #issuerOf(id: UpstreamRequestId): Party | undefined {
    return this.#issued.get(id) ?? this.#running.get(id) ?? this.#unfinished.get(id)?.by;
  }

  #allDone(): boolean {
    const now = this.#options.now();
    for (const [id, { atMs }] of this.#unfinished) {
      if (now - atMs < MAY_STILL_ASK_MS) return false;
      this.#unfinished.delete(id);
    }
    return true;
  }
}

/** What is the same for one question in all sessions that it is sent to. */
export function questionKey(id: unknown, method: string, params: object): string {
  return sha256(JSON.stringify([id, method, params]));
}

/** The id of ours that a message names: that of a reply, or the token of progress. */
function idOfOurs(message: JsonRpcMessage): UpstreamRequestId | null {
  switch (message.type) {
    case 'response':
      return isOfOurForm(message.id) ? message.id : null;
    case 'notification': {
      if (message.method !== 'notifications/progress') return null;
      const { progressToken } = message.params;
      return isOfOurForm(progressToken) ? progressToken : null;
    }
    default:
      return null;
  }
}
