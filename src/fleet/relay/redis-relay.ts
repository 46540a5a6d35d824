/**
 * The relay for replicas that cannot reach each other: messages go through queues in Redis. It is slower than HTTP,
 * and behaves the same.
 */
import { inBackground, vitalWork } from '../../lib/background.ts';
import { ReleasingMap } from '../../lib/containers.ts';
import type { EdgeRequest, Waiter } from '../../model/request.ts';
import { CLIENT_LEFT, tooLarge, type Relay, type RelayOutcome } from '../../model/relay.ts';
import { sleep } from '../../lib/clock.ts';
import { randomId } from '../../lib/crypto.ts';
import type { KeyRing } from '../../seal/key-ring.ts';
import type { PointerOwner } from '../../seal/pointer.ts';
import {
  IncomingRetries,
  type IncomingRetriesOptions,
  type IncomingRetry,
} from './incoming-retry.ts';
import {
  MAX_PIECE_BYTES,
  maxRetryBytes,
  openMessage,
  sealMessage,
  writeRequest,
  type MessageKind,
  type RelayMessage,
} from './messages.ts';
import type { OwnerActivity } from './liveness.ts';
import { OutgoingRetry } from './outgoing-retry.ts';
import { wasNotSent } from '../redis/client.ts';
import type { MessageQueue } from './redis-queue.ts';

export interface RedisRelayOptions extends IncomingRetriesOptions {
  readonly ring: KeyRing<'relay'>;
  /** The name of the deployment. */
  readonly audience: string;
  readonly queue: Pick<MessageQueue, 'read' | 'push' | 'close' | 'isBehind'>;
  /** The name of this process in pointers. */
  readonly instance: string;
  /** The longest request. */
  readonly maxBodyBytes: number;
  readonly maxReplyBytes: number;
  readonly owners: OwnerActivity;
}

/**
 * - `taken`: the message is in the queue
 * - `full`: it is not; the queue is read too slowly, or not at all
 * - `unsent`: it is not; Redis is unreachable, which says nothing about the reader
 * - `lost`: Redis is unreachable, and may have taken it before
 */
type PushResult = 'taken' | 'full' | 'unsent' | 'lost';

/** Between two attempts to push a message that must arrive, in ms. */
const PUSH_AGAIN_MS = 100;
/** How long a message that must arrive is pushed again, in ms. */
const PUSH_TIMEOUT_MS = 30_000;
/** How long `close` waits for the last messages, in ms. */
const CLOSE_TIMEOUT_MS = 1_000;

export class RedisRelay {
  readonly #options: RedisRelayOptions;
  readonly #outgoing = new ReleasingMap<
    string,
    { readonly instance: string; readonly retry: OutgoingRetry }
  >();
  readonly #incoming: IncomingRetries;
  readonly #pushing = new Set<Promise<PushResult>>();
  #isStopping = false;

  constructor(options: RedisRelayOptions) {
    this.#options = options;
    this.#incoming = new IncomingRetries(options);
    const { queue, ring, audience, instance, maxBodyBytes } = options;
    const maxBytes = Math.max(maxRetryBytes(maxBodyBytes), MAX_PIECE_BYTES);
    vitalWork(
      queue.read((sealed) => {
        const message = openMessage(ring, { audience, key: instance }, sealed, maxBytes);
        if (message !== null) this.#receive(message);
      }),
    );
  }

  /** Creates the relay from a route to the same route of the other replicas. */
  for(route: string): Relay {
    return {
      relay: (owner, request, waiter) => this.#relay(route, owner, request, waiter),
      sendClientsBack: () => {
        this.#isStopping = true;
        for (const { retry } of this.#outgoing.values()) retry.sendClientBack();
      },
    };
  }

  async close(): Promise<void> {
    for (const { retry } of this.#outgoing.values()) {
      retry.end({ type: 'released', problem: 'this replica stops' });
    }
    this.#incoming.close();
    await Promise.race([Promise.all(this.#pushing), sleep(this.#options.clock, CLOSE_TIMEOUT_MS)]);
    this.#options.queue.close();
  }

  async #relay(
    route: string,
    owner: PointerOwner,
    request: EdgeRequest,
    waiter: Waiter,
  ): Promise<RelayOutcome> {
    if (waiter.closed.aborted) return CLIENT_LEFT;
    const { clock, queue, owners, maxBodyBytes, maxReplyBytes } = this.#options;
    const { instance } = owner;
    const text = writeRequest({ route, request });
    // The owner would not read it. A body can be shorter than what it becomes: 1e20 is written with all its digits.
    if (Buffer.byteLength(text) > maxBodyBytes) return tooLarge(request);
    const id = randomId();
    const push = (kind: MessageKind, text = '') =>
      this.#push(instance, { kind, id, number: 0, text });
    const retry = new OutgoingRetry(waiter, {
      clock,
      maxLineLength: maxReplyBytes,
      sendsHeartbeats: true,
      maxPauseMs: 0,
      send: async (kind, text) => (await push(kind, text)) === 'taken',
      sinceMessageMs: () => owners.sinceMessageMs(instance),
      isBehind: () => queue.isBehind,
      onEnd: () => this.#outgoing.delete(id),
    });
    owners.recordRequest(instance);
    this.#outgoing.set(id, { instance, retry });
    if (this.#isStopping) retry.sendClientBack();
    const result = await push('retry', text);
    // If the owner has it nevertheless, it has no effect: nothing confirms it.
    if (result !== 'taken') {
      retry.giveUp({ type: 'unreachable', problem: 'Redis did not take the message' });
    }
    const outcome = await retry.outcome;
    if (outcome.type !== 'silent' || owners.mayBeAlive(instance)) return outcome;
    return { ...outcome, type: 'gone' };
  }

  #receive(message: RelayMessage): void {
    const outgoing = this.#outgoing.get(message.id);
    if (outgoing !== undefined) {
      if (outgoing.instance !== message.from) return;
      this.#options.owners.recordMessage(message.from);
      inBackground(outgoing.retry.receive(message));
    } else if (message.kind === 'retry') {
      inBackground(this.#serve(message));
    } else {
      this.#incoming.receive(message);
    }
  }

  async #serve(message: RelayMessage): Promise<void> {
    const { id, from } = message;
    const { queue } = this.#options;
    let retry: IncomingRetry | null = null;
    const channel = {
      showsDisconnect: false,
      isBehind: () => queue.isBehind,
      send: async (kind: MessageKind, text: string, number: number): Promise<void> => {
        const isRead = await this.#pushUntilTaken(from, { kind, id, number, text }, () => retry);
        if (!isRead) throw new Error('nobody reads the queue');
      },
    };
    await this.#incoming.serve(message, channel, (begun) => (retry = begun));
  }

  /**
   * Pushes a message of the owner, again and again if it must arrive.
   * @returns false if nobody reads the queue
   */
  async #pushUntilTaken(
    to: string,
    message: Omit<RelayMessage, 'from'>,
    retry: () => IncomingRetry | null,
  ): Promise<boolean> {
    const { clock } = this.#options;
    const mustArrive = message.kind === 'piece' || message.kind === 'unknown';
    const untilMs = clock.elapsed() + PUSH_TIMEOUT_MS;
    for (;;) {
      const result = await this.#push(to, message);
      if (result === 'taken') return true;
      // While messages are lost, the requester's heartbeats cannot arrive either.
      if (result !== 'full') retry()?.resetWatchdog();
      if (!mustArrive || retry()?.closed.aborted === true) return true;
      if (clock.elapsed() >= untilMs) return result !== 'full';
      await sleep(clock, PUSH_AGAIN_MS, retry()?.closed);
    }
  }

  async #push(to: string, message: Omit<RelayMessage, 'from'>): Promise<PushResult> {
    const { ring, audience, queue, instance } = this.#options;
    const sealed = sealMessage(ring, { audience, key: to }, { ...message, from: instance });
    const pushing = queue.push(to, sealed).then(
      (isTaken) => (isTaken ? 'taken' : 'full'),
      (error: unknown) => (wasNotSent(error) ? 'unsent' : 'lost'),
    );
    this.#pushing.add(pushing);
    try {
      return await pushing;
    } finally {
      this.#pushing.delete(pushing);
    }
  }
}
