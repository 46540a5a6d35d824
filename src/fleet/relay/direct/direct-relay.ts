/**
 * The relay for replicas that reach each other: one kept connection between two of them carries the retries in both
 * directions. Each retry has a window of its own, so a client that reads slowly holds back no other.
 */
import { inBackground } from '../../../lib/background.ts';
import { sleep } from '../../../lib/clock.ts';
import { ReleasingMap } from '../../../lib/containers.ts';
import { randomId } from '../../../lib/crypto.ts';
import { CLIENT_LEFT, tooLarge, type Relay, type RelayOutcome } from '../../../model/relay.ts';
import type { EdgeRequest, Waiter } from '../../../model/request.ts';
import type { PointerOwner } from '../../../seal/pointer.ts';
import {
  IncomingRetries,
  type IncomingRetriesOptions,
  type IncomingRetry,
} from '../incoming-retry.ts';
import {
  CONFIRMATION_TIMEOUT_MS,
  OWNER_TIMEOUT_MS,
  UNREAD_TIMEOUT_MS,
  type OwnerActivity,
} from '../liveness.ts';
import { writeRequest, type MessageKind } from '../messages.ts';
import { OutgoingRetry, type ReachableOwner } from '../outgoing-retry.ts';
import { Connection, ReadProgress, SendWindow } from './connection.ts';
import { TOO_LONG, type Frame, type StampedFrame } from './frames.ts';
import {
  accept,
  connect,
  type Agreed,
  type Arrival,
  type Local,
  type NotConnected,
} from './handshake.ts';

export interface DirectRelayOptions extends IncomingRetriesOptions, Local {
  readonly owners: OwnerActivity;
  readonly maxBodyBytes: number;
  readonly maxReplyBytes: number;
  /** How long the reply to a retry can stay unread, in ms. */
  readonly unreadTimeoutMs?: number;
}

/** A retry that was sent to its owner. */
interface Sent {
  readonly instance: string;
  readonly retry: OutgoingRetry;
  readonly progress: ReadProgress;
  connection: Connection | null;
  failure: NotConnected['type'] | 'too long' | null;
  /** Resolves when the messages so far were read; `null` if they are. */
  reading: Promise<void> | null;
}

/** A retry that is served here. */
interface Served {
  readonly connection: Connection;
  readonly window: SendWindow;
  readonly retry: IncomingRetry;
}

interface Message {
  readonly kind: MessageKind;
}

/** How long a requester whose connection broke can take to say why, or to claim the call, in ms. */
const TAKEOVER_MS = 1_000;
const CLOSE_TIMEOUT_MS = 1_000;

export class DirectRelay {
  readonly #options: DirectRelayOptions;
  readonly #incoming: IncomingRetries;
  /** Retries that were sent, and retries that are served here, by their ids. */
  readonly #sent = new ReleasingMap<string, Sent>();
  readonly #served = new ReleasingMap<string, Served>();
  /** The connection that retries to a process use. */
  readonly #connections = new Map<string, Connection>();
  readonly #connecting = new Map<string, Promise<Connection | NotConnected>>();
  readonly #all = new Set<Connection>();
  #isStopping = false;
  #isClosed = false;

  constructor(options: DirectRelayOptions) {
    this.#options = options;
    this.#incoming = new IncomingRetries(options);
  }

  /** Creates the relay from a route to the same route of the other replicas. */
  for(route: string): Relay {
    return {
      relay: (owner, request, waiter) => this.#relay(route, owner, request, waiter),
      sendClientsBack: () => {
        this.#isStopping = true;
        for (const { retry } of this.#sent.values()) retry.sendClientBack();
      },
    };
  }

  /** Takes a connection of another replica, or refuses it. */
  accept(arrival: Arrival): void {
    const agreed = accept(arrival, this.#options);
    if (agreed !== null) this.#keep(agreed);
  }

  /** Closes the connections when what was sent has left this process, or after a second. */
  async close(): Promise<void> {
    for (const { retry } of this.#sent.values()) {
      retry.end({ type: 'released', problem: 'this replica stops' });
    }
    this.#incoming.close();
    this.#isClosed = true;
    const ended = Promise.all([...this.#all].map((connection) => connection.end()));
    await Promise.race([ended, sleep(this.#options.clock, CLOSE_TIMEOUT_MS)]);
    for (const connection of this.#all) connection.destroy();
  }

  async #relay(
    route: string,
    owner: PointerOwner,
    request: EdgeRequest,
    waiter: Waiter,
  ): Promise<RelayOutcome> {
    const { owners } = this.#options;
    const { instance, address } = owner;
    if (address === undefined) return { type: 'gone', problem: 'it has no address' };
    const text = writeRequest({ route, request });
    owners.recordRequest(instance);
    let tried = await this.#try({ ...owner, address }, text, waiter);
    // A retry is used once, however often it comes. A new call would be made twice.
    const isRepeatable = request.requestState !== null || !isConfirmed(tried.outcome);
    if (tried.failure === 'broken' && isRepeatable) {
      // A live owner still has the call, and the port of a dead one is closed.
      tried = await this.#try({ ...owner, address }, text, waiter);
    }
    if (tried.failure === 'too long') return tooLarge(request);
    const { outcome } = tried;
    if (outcome.type !== 'silent' || owners.mayBeAlive(instance)) return outcome;
    return { ...outcome, type: 'gone' };
  }

  async #try(owner: ReachableOwner, text: string, waiter: Waiter) {
    if (waiter.closed.aborted) return { outcome: CLIENT_LEFT, failure: null };
    const { instance } = owner;
    const { owners } = this.#options;
    const id = randomId();
    const sent = this.#begin(id, owner, waiter);
    const connection = this.#connectionTo(instance);
    const frame = { kind: 'retry', id, number: 0, text } as const;
    if (connection !== null) this.#send(sent, connection, frame);
    else inBackground(this.#connect(owner).then((connected) => this.#send(sent, connected, frame)));
    const outcome = await sent.retry.outcome;
    if (outcome.type !== 'silent') return { outcome, failure: null };
    // What went wrong may be the connection: the next retry uses another one.
    if (owners.sinceMessageMs(instance) >= OWNER_TIMEOUT_MS) this.#connections.delete(instance);
    return { outcome, failure: sent.failure };
  }

  #begin(id: string, owner: ReachableOwner, waiter: Waiter): Sent {
    const { clock, owners, maxReplyBytes } = this.#options;
    const retry = new OutgoingRetry(waiter, {
      clock,
      maxLineLength: maxReplyBytes,
      sendsHeartbeats: false,
      // Half the time after which the owner takes this process for dead.
      maxPauseMs: UNREAD_TIMEOUT_MS / 2,
      send: (kind, text = '') => this.#sendLater(sent, owner, { kind, id, number: 0, text }),
      sinceMessageMs: () => owners.sinceMessageMs(owner.instance),
      onEnd: () => this.#sent.delete(id),
    });
    const sent: Sent = {
      ...{ instance: owner.instance, retry, progress: new ReadProgress(clock) },
      ...{ connection: null, failure: null, reading: null },
    };
    this.#sent.set(id, sent);
    if (this.#isStopping) retry.sendClientBack();
    return sent;
  }

  #send(sent: Sent, connected: Connection | NotConnected, frame: Frame): void {
    if (connected instanceof Connection) {
      sent.connection = connected;
      if (sent.retry.isOver) return;
      if (connected.sinceReadMs <= CONFIRMATION_TIMEOUT_MS) sent.retry.confirm();
      inBackground(connected.send(frame));
    } else {
      const { type, problem } = connected;
      sent.failure = type;
      sent.retry.giveUp({ type: type === 'gone' ? 'gone' : 'silent', problem });
    }
  }

  /** Sends a later message of a retry. @returns whether it has left this process, or nobody needs it */
  async #sendLater(sent: Sent, owner: ReachableOwner, frame: Frame): Promise<boolean> {
    const open = sent.connection?.isOpen ? sent.connection : this.#connectionTo(owner.instance);
    const connected = open ?? (await this.#connect(owner));
    return connected instanceof Connection ? connected.send(frame) : connected.type === 'gone';
  }

  #connectionTo(instance: string): Connection | null {
    const connection = this.#connections.get(instance);
    return connection?.isOpen ? connection : null;
  }

  #connect(owner: ReachableOwner): Promise<Connection | NotConnected> {
    const { instance } = owner;
    const connecting =
      this.#connecting.get(instance) ??
      connect(owner, this.#options).then((agreed) => {
        this.#connecting.delete(instance);
        if ('problem' in agreed) return agreed;
        const connection = this.#keep(agreed);
        this.#connections.set(instance, connection);
        return connection;
      });
    this.#connecting.set(instance, connecting);
    return connecting;
  }

  #keep(agreed: Agreed): Connection {
    const { clock, maxBodyBytes, unreadTimeoutMs = UNREAD_TIMEOUT_MS } = this.#options;
    const connection: Connection = new Connection(agreed, {
      clock,
      maxTextLength: maxBodyBytes,
      idleTimeoutMs: unreadTimeoutMs,
      isInUse: () =>
        [...this.#sent.values(), ...this.#served.values()].some(
          (retry) => retry.connection === connection,
        ),
      onOpen: () => {
        if (this.#connectionTo(agreed.peer) === null)
          this.#connections.set(agreed.peer, connection);
      },
      onFrame: (frame) => this.#receive(connection, frame),
      onClose: () => this.#forget(connection),
    });
    this.#all.add(connection);
    if (this.#isClosed) connection.destroy();
    return connection;
  }

  #forget(connection: Connection): void {
    const { peer } = connection;
    this.#all.delete(connection);
    if (this.#connections.get(peer) === connection) this.#connections.delete(peer);
    for (const sent of this.#sent.values()) {
      if (sent.connection === connection) giveUpBroken(sent, 'its connection broke');
    }
    for (const served of this.#served.values()) {
      // The requester may have given up: then its client retries, or another replica is about to claim the call.
      if (served.connection === connection) served.retry.disconnected(TAKEOVER_MS);
    }
  }

  #receive(connection: Connection, frame: StampedFrame): void {
    const { peer } = connection;
    const { kind, id, number } = frame;
    const sent = this.#sent.get(id);
    if (sent?.instance === peer) {
      this.#options.owners.recordMessage(peer);
      if (kind === 'dropped' && number === TOO_LONG) endTooLong(sent);
      else if (kind === 'dropped') giveUpBroken(sent, 'it stopped serving the retry');
      else if (isMessage(frame)) this.#receiveMessage(connection, sent, frame);
      return;
    }
    const served = this.#served.get(id);
    if (kind === 'retry') inBackground(this.#serve(connection, frame));
    else if (kind === 'taken') {
      if (served?.connection.peer === peer) served.window.open(number);
    } else if (isMessage(frame)) this.#incoming.receive({ ...frame, from: peer });
  }

  /** Passes a message of the owner on, when those before it were read. */
  #receiveMessage(connection: Connection, sent: Sent, message: StampedFrame & Message): void {
    const { retry, progress } = sent;
    const receive = async () => {
      await retry.receive({ ...message, from: connection.peer });
      const length = message.kind === 'piece' ? progress.add(message.text.length) : 0;
      if (length === 0 || retry.isOver) return;
      inBackground(connection.send({ kind: 'taken', id: message.id, number: length, text: '' }));
    };
    const reading = sent.reading === null ? receive() : sent.reading.then(receive);
    sent.reading = reading;
    inBackground(
      reading.then(() => {
        if (sent.reading === reading) sent.reading = null;
      }),
    );
  }

  async #serve(connection: Connection, { id, number, text, readAt }: StampedFrame): Promise<void> {
    const { clock, unreadTimeoutMs = UNREAD_TIMEOUT_MS } = this.#options;
    const window = new SendWindow(clock, unreadTimeoutMs);
    const send = async (kind: MessageKind, text: string, number: number) => {
      if (kind === 'piece') await window.take(text.length);
      await connection.send({ kind, id, number, text });
    };
    const message = { kind: 'retry', id, from: connection.peer, number, text } as const;
    // 0: the requester has read nothing yet. By the clock of a process that has just started, that would be fresh.
    const isFresh = () => readAt > 0 && clock.elapsed() - readAt <= CONFIRMATION_TIMEOUT_MS;
    await this.#incoming.serve(message, { showsDisconnect: true, isFresh, send }, (retry) => {
      const served = { connection, window, retry };
      this.#served.set(id, served);
      retry.closed.addEventListener('abort', () => {
        window.open(Infinity);
        inBackground(connection.send({ kind: 'dropped', id, number: 0, text: '' }));
      });
    });
    this.#served.delete(id);
  }
}

function isConfirmed(outcome: RelayOutcome): boolean {
  return outcome.type !== 'replied' && outcome.isConfirmed === true;
}

/** The owner has not carried it out, so it needs to hear nothing more of it. */
function endTooLong(sent: Sent): void {
  sent.failure = 'too long';
  sent.retry.end({ type: 'silent', problem: 'the request is too long for it' });
}

function giveUpBroken(sent: Sent, problem: string): void {
  sent.failure = 'broken';
  sent.retry.giveUp({ type: 'silent', problem });
}

/** Whether a frame is one of the messages that replicas exchange in other ways as well. */
function isMessage<Some extends Frame>(frame: Some): frame is Some & Message {
  return frame.kind !== 'part' && frame.kind !== 'taken' && frame.kind !== 'dropped';
}
