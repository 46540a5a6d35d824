/**
 * The ids of our requests to a server, and what they show of how it delivers messages. They are random, and unique over all
 * sessions, processes and restarts, so that an id in the wrong session is a proof: of a bridge that broadcasts to all
 * clients, or of an event store that mixes streams. Some servers find streams by the request id alone.
 */
import { TRAITS } from '../transport/traits.ts';
import type { RouteLog } from '../../ops/route-log.ts';
import { LruMap, RecentMap } from '../../lib/containers.ts';
import { sha256, randomId, randomInteger } from '../../lib/crypto.ts';
import { type UpstreamRequestId, upstreamRequestId } from '../../protocol/ids.ts';
import type { JsonRpcMessage } from '../../protocol/json-rpc.ts';
import type { Transport } from '../transport/transport.ts';

/** How many numbers begin alike: half of the 52 bits below the highest one. */
const NUMBERS = 2 ** 26;
const TEXT_ID = /^mrtr-[\w-]{22}$/;
/** Of the 22 characters, half begin alike. */
const TEXT_HALF = 11;
const TEXT_START = 'mrtr-'.length + TEXT_HALF;

/**
 * The ids of one session, and its identity. It is not a reference to the session: ids are remembered for long after it is
 * over, and would keep it in memory. All begin alike: a process that takes a session over recognizes the replies to the
 * process that had it before.
 */
export class SessionIds {
  /** When none is left, the session continues with numbers that begin otherwise. */
  #numbers = newNumbers();
  readonly #textStart = `mrtr-${randomId()}`.slice(0, TEXT_START);

  /** Returns an exact integer of 53 bits, so that a server that cuts ids to 32 bits is noticed at once. */
  nextNumber(): UpstreamRequestId {
    if (this.#numbers.left === 0) this.#numbers = newNumbers();
    const numbers = this.#numbers;
    numbers.left -= 1;
    numbers.last = (numbers.last + numbers.step) % NUMBERS;
    return upstreamRequestId(numbers.start + numbers.last);
  }

  /** Returns a string of characters that every server accepts. */
  nextText(): UpstreamRequestId {
    return upstreamRequestId(`${this.#textStart}${randomId().slice(0, TEXT_HALF)}`);
  }
}

/** With an odd step each number comes once, and other clients of the server cannot guess the next one. */
function newNumbers() {
  const random = randomInteger();
  const last = random % NUMBERS;
  return { start: random - last, last, step: (randomInteger() % NUMBERS) | 1, left: NUMBERS };
}

/** True if a process that had the session of `own` can have issued the id. By chance, one of 67 million of others fits. */
export function isOfSameSession(own: UpstreamRequestId, id: unknown): boolean {
  return hasGatewayIdForm(id) && startOf(own) === startOf(id);
}

/** Returns the half of an id that all ids of its session share. */
function startOf(id: UpstreamRequestId): number | string {
  return typeof id === 'number' ? Math.floor(id / NUMBERS) : id.slice(0, TEXT_START);
}

/** True if only a gateway can have issued the id: other clients count from 0, or use other strings. */
function hasGatewayIdForm(id: unknown): id is UpstreamRequestId {
  if (typeof id === 'string') return TEXT_ID.test(id);
  return Number.isSafeInteger(id) && Number(id) >= 2 ** 52;
}

/** The least sessions whose ids are recognized; the oldest is forgotten first. And the least ids that changed their session. */
const MIN_SESSIONS = 32_768;
const MIN_MOVED_IDS = 4_096;
const MAX_QUESTIONS = 256;
const MAX_UNFINISHED_CALLS = 1_000;
/** How long a call that ended without a reply can still run at the server and ask questions, in ms. */
const UNFINISHED_CALL_MS = 600_000;

export interface BroadcastDetectorOptions {
  /** Returns the time, in ms. */
  readonly now: () => number;
  /** Whether other replicas of the gateway may use the same server. */
  readonly hasSiblings: boolean;
  readonly log?: RouteLog | undefined;
}

interface EndedCall {
  readonly endedAtMs: number;
  readonly session: SessionIds;
}

/** Detects servers that send messages to the wrong session. */
export class BroadcastDetector {
  /** Whether a resumed stream carried messages of another call. */
  mixesStreams = false;
  /** Whether the server cannot hold integers, so that strings are issued. */
  usesTextIds = false;
  readonly hasSiblings: boolean;
  readonly #options: BroadcastDetectorOptions;
  /** Sessions by what their ids begin with: one entry for each session, not for each id. */
  readonly #issuers = new RecentMap<number | string, SessionIds>(MIN_SESSIONS);
  /** Ids of calls that another session has resumed. */
  readonly #moved = new RecentMap<UpstreamRequestId, SessionIds>(MIN_MOVED_IDS);
  /** The last questions, and the sessions that received them. */
  readonly #questions = new LruMap<string, Set<SessionIds>>(MAX_QUESTIONS);
  /** Calls can run for hours, in which many other sessions begin. */
  readonly #running = new Map<UpstreamRequestId, SessionIds>();
  /** Progress tokens of tasks, which outlive the request that created the task. */
  readonly #tokens = new Map<UpstreamRequestId, SessionIds>();
  /** Calls that ended without a reply, the oldest first. */
  readonly #unfinished = new Map<UpstreamRequestId, EndedCall>();
  #broadcasts = false;
  /** Whether other gateways use the server; their calls are not known here. */
  #hasOtherClients: boolean;

  constructor(options: BroadcastDetectorOptions) {
    this.#options = options;
    this.hasSiblings = options.hasSiblings;
    this.#hasOtherClients = options.hasSiblings;
  }

  /** True if the server sends messages of one session to others. */
  get broadcasts(): boolean {
    return this.#broadcasts;
  }

  /** Issues an id for a request of this session. */
  issueId(session: SessionIds): UpstreamRequestId {
    const id = this.usesTextIds ? session.nextText() : session.nextNumber();
    const start = startOf(id);
    if (this.#issuers.get(start) !== session) this.#issuers.set(start, session);
    return id;
  }

  /** Moves the id of a call to the session that resumes it. */
  moveId(id: UpstreamRequestId, session: SessionIds): void {
    this.#moved.set(id, session);
  }

  /** Remembers the progress token of a task, as long as its call runs. */
  tokenHeld(token: UpstreamRequestId, session: SessionIds): void {
    this.#tokens.set(token, session);
  }

  tokenDropped(token: UpstreamRequestId): void {
    this.#tokens.delete(token);
  }

  isIssuedBy(id: UpstreamRequestId, session: SessionIds): boolean {
    return this.#issuerOf(id) === session;
  }

  callBegan(id: UpstreamRequestId, session: SessionIds): void {
    this.#running.set(id, session);
  }

  /** @param replied false if the server may still run the call */
  callEnded(id: UpstreamRequestId, replied: boolean): void {
    const session = this.#running.get(id);
    this.#running.delete(id);
    if (session === undefined || replied) return;
    this.#unfinished.set(id, { endedAtMs: this.#options.now(), session });
    for (const oldest of this.#unfinished.keys()) {
      if (this.#unfinished.size <= MAX_UNFINISHED_CALLS) break;
      this.#unfinished.delete(oldest);
    }
  }

  /** Checks a message that a session received, whether it is for that session or not. */
  received(
    message: JsonRpcMessage<unknown>,
    session: SessionIds,
    transport: Transport['kind'],
  ): void {
    const id = gatewayIdIn(message);
    if (id === null) return;
    const issuer = this.#issuerOf(id);
    if (message.type === 'response') this.#unfinished.delete(id);
    if (issuer === session) return;
    // No other client makes ids of this form, so another gateway process issued it.
    const isOtherGateway = issuer === undefined && TRAITS[transport].mayBroadcast;
    if (isOtherGateway) this.#hasOtherClients = true;
    if (isOtherGateway || issuer !== undefined) this.reportBroadcast();
  }

  reportBroadcast(): void {
    if (this.#broadcasts) return;
    this.#broadcasts = true;
    this.#options.log?.event('upstream.broadcasts', {});
  }

  /** Remembers that the session received the question. */
  questionReceived(question: string, session: SessionIds): void {
    const receivers = this.#questions.get(question) ?? new Set();
    this.#questions.set(question, receivers.add(session));
  }

  /** True if the session received the question recently. */
  hasReceived(question: string, session: SessionIds): boolean {
    return this.#questions.get(question)?.has(session) ?? false;
  }

  /** True if a message without an id of the gateway, in a session with this call, can only be of this call. */
  isOnlyCall(id: UpstreamRequestId): boolean {
    if (!this.#broadcasts) return true;
    return (
      !this.#hasOtherClients &&
      this.#running.size === 1 &&
      this.#running.has(id) &&
      this.#allFinished()
    );
  }

  #issuerOf(id: UpstreamRequestId): SessionIds | undefined {
    return (
      this.#moved.get(id) ??
      this.#issuers.get(startOf(id)) ??
      this.#running.get(id) ??
      this.#tokens.get(id) ??
      this.#unfinished.get(id)?.session
    );
  }

  #allFinished(): boolean {
    const now = this.#options.now();
    for (const [id, { endedAtMs }] of this.#unfinished) {
      if (now - endedAtMs < UNFINISHED_CALL_MS) return false;
      this.#unfinished.delete(id);
    }
    return true;
  }
}

/** Returns a key that is equal for one question in all sessions that receive it. */
export function questionKey(id: unknown, method: string, params: object): string {
  return sha256(JSON.stringify([id, method, params]));
}

/** The id of the gateway that a message names: that of a reply, or the token of progress. */
function gatewayIdIn(message: JsonRpcMessage<unknown>): UpstreamRequestId | null {
  switch (message.type) {
    case 'response':
      return hasGatewayIdForm(message.id) ? message.id : null;
    case 'notification': {
      if (message.method !== 'notifications/progress') return null;
      const { progressToken } = message.params;
      return hasGatewayIdForm(progressToken) ? progressToken : null;
    }
    default:
      return null;
  }
}

/**
 * - `unknown`: the server has asked nothing yet
 * - `on-stream`: every question so far came on the stream of its call
 * - `uncorrelated`: a question came on a stream that names no call
 */
export type AskingStyle = 'unknown' | 'on-stream' | 'uncorrelated';

/**
 * Learns where a legacy server asks: on the event stream of the call that the question belongs to, or on a
 * stream that names no call. It decides how many calls of one caller may run in a session at once.
 */
export class AskingStyleDetector {
  #style: AskingStyle = 'unknown';

  get style(): AskingStyle {
    return this.#style;
  }

  /** Notes an elicitation or a sampling request. `roots/list` is never of one call, and does not count. */
  asked(where: 'on-stream' | 'uncorrelated'): void {
    if (this.#style !== 'uncorrelated') this.#style = where;
  }
}
