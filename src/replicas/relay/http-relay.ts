/**
 * A retry's way to the replica that holds its call: one HTTP request, whose answer streams back. An
 * owner that is dead or frozen is noticed by its silence, so that the next rung can serve.
 */
import type { Readable } from 'node:stream';
import { Agent, request } from 'undici';
import type { EdgeRequest, Leg } from '../../model/request.ts';
import { CLIENT_LEFT, type Relay, type Relayed } from '../../model/relay.ts';
import { sleep, type Clock } from '../../lib/clock.ts';
import { randomId } from '../../lib/random-id.ts';
import type { KeyRing } from '../../seal/key-ring.ts';
import type { PointerOwner } from '../../seal/pointer.ts';
import { openLetter, sealedBytes, sealLetter } from './sealed-message.ts';
import { readRelayLines, writeRelayRequest, type RelayLine } from './messages.ts';
import { RELAY_PATH, UNTIMELY_STATUS } from './server.ts';
import { OWNER_SILENCE_MS, watchForSilence, type SilenceWatch } from './heartbeat.ts';

export interface RelayClientOptions {
  readonly ring: KeyRing<'relay'>;
  /** This process, as pointers name it. */
  readonly boot: string;
  readonly route: string;
  readonly maxAnswerBytes: number;
  readonly clock: Clock;
}

const CONNECT_MS = 1_000;
const HEAD_MS = 1_000;
/** Shorter than what the owner takes for our death. A client that is behind for longer hears less. */
const MAX_PAUSE_MS = 3_000;

export class RelayClient implements Relay {
  readonly #options: RelayClientOptions;
  readonly #agent = new Agent({
    connect: { timeout: CONNECT_MS },
    headersTimeout: HEAD_MS,
    bodyTimeout: 0,
    pipelining: 1,
  });

  constructor(options: RelayClientOptions) {
    this.#options = options;
  }

  /** Never throws. When the leg closes, the owner is left as the client left us. */
  async relay(owner: PointerOwner, edgeRequest: EdgeRequest, leg: Leg): Promise<Relayed> {
    const { ring, boot, route, clock } = this.#options;
    if (owner.address === undefined) return { type: 'gone', problem: 'it has no address' };
    if (leg.closed.aborted) return CLIENT_LEFT;
    const id = randomId();
    const text = writeRelayRequest({ route, request: edgeRequest }).toString('utf8');
    const onClosed = () => void this.#tellLeft(owner, id);
    leg.closed.addEventListener('abort', onClosed);
    try {
      const letter = { kind: 'retry', id, from: boot, text } as const;
      const sealed = await sealLetter(ring, owner.boot, letter, clock);
      const answer = await this.#post(owner, sealed, leg.closed);
      if (answer.statusCode !== 200) {
        answer.body.on('error', () => {}).destroy();
        if (answer.statusCode === UNTIMELY_STATUS) return untimely(answer.headers['date'], clock);
        const problem = `it answered with HTTP ${answer.statusCode}`;
        return { type: answer.statusCode === 404 ? 'unknown' : 'gone', problem };
      }
      const followed = await this.#follow(answer.body, id, leg);
      return leg.closed.aborted ? CLIENT_LEFT : followed;
    } catch (error) {
      if (leg.closed.aborted) return CLIENT_LEFT;
      const problem = error instanceof Error ? error.message : String(error);
      const code = error instanceof Error && 'code' in error ? error.code : '';
      return { type: code === 'UND_ERR_HEADERS_TIMEOUT' ? 'silent' : 'gone', problem };
    } finally {
      leg.closed.removeEventListener('abort', onClosed);
    }
  }

  #post(owner: PointerOwner, sealed: string, signal: AbortSignal) {
    return request(new URL(RELAY_PATH, owner.address), {
      dispatcher: this.#agent,
      method: 'POST',
      headers: { 'content-type': 'application/jose' },
      body: sealed,
      signal,
    });
  }

  /** A connection that closes may also mean that we gave the owner up, so it is told in words. */
  async #tellLeft(owner: PointerOwner, id: string): Promise<void> {
    const { ring, boot, clock } = this.#options;
    try {
      const letter = { kind: 'closed', id, from: boot, text: '' } as const;
      const sealed = await sealLetter(ring, owner.boot, letter, clock);
      const { body } = await this.#post(owner, sealed, AbortSignal.timeout(HEAD_MS));
      body.on('error', () => {}).destroy();
    } catch {
      // Then the silence of the connection tells it, a moment later.
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #follow(body: Readable, id: string, leg: Leg): Promise<Relayed> {
    const { maxAnswerBytes, clock } = this.#options;
    const watch = watchForSilence(clock, OWNER_SILENCE_MS, () => {
      body.destroy(new Error('no sign of life'));
    });
    try {
      for await (const sealed of lines(body, sealedBytes(maxAnswerBytes), watch.seen)) {
        for (const line of await this.#open(sealed, id)) {
          if (line.type === 'answer') return { type: 'answered', answer: line.answer };
          leg.notify(line.method, line.params);
          if (leg.backlog !== null) await this.#untilTaken(leg.backlog, watch);
        }
      }
      return { type: 'silent', problem: 'its answer ended early' };
    } catch (error) {
      return { type: 'silent', problem: error instanceof Error ? error.message : String(error) };
    } finally {
      watch.stop();
      body.on('error', () => {}).destroy();
    }
  }

  /** Holds the owner back by its own connection while the client is behind. */
  async #untilTaken(backlog: Promise<void>, watch: SilenceWatch): Promise<void> {
    const taken = new AbortController();
    // It is not the owner that is silent now.
    watch.stop();
    await Promise.race([backlog, sleep(this.#options.clock, MAX_PAUSE_MS, taken.signal)]);
    taken.abort();
    watch.seen();
  }

  async #open(sealed: string, id: string): Promise<readonly RelayLine[]> {
    const { ring, boot, clock, maxAnswerBytes: maxBytes } = this.#options;
    const letter = await openLetter(ring, boot, sealed, { clock, maxBytes });
    if (letter === 'untimely') throw new Error('it answers with a retry');
    const read = letter?.kind === 'line' && letter.id === id ? readRelayLines(letter.text) : null;
    if (read === null) throw new Error('a line of its answer is not understood');
    return read;
  }
}

/** The owner lives, and its clock and ours differ too much: another replica may reach it. */
function untimely(date: string | string[] | undefined, clock: Pick<Clock, 'now'>): Relayed {
  const aheadMs = clock.now() - Date.parse(String(date));
  const problem = 'it takes the retry for one of another time: the clocks differ';
  return Number.isNaN(aheadMs)
    ? { type: 'unreachable', problem }
    : { type: 'unreachable', problem, aheadSeconds: Math.round(aheadMs / 1000) };
}

/** The lines of an answer as they come, without the empty ones. Throws when one is longer than allowed. */
async function* lines(body: Readable, maxBytes: number, seen: () => void): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of body) {
    seen();
    rest += (chunk as Buffer).toString('latin1');
    if (rest.length > maxBytes) throw new Error('a line of its answer is too long');
    const complete = rest.split('\n');
    rest = complete.pop() ?? '';
    yield* complete.filter((line) => line !== '');
  }
}
