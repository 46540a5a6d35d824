/**
 * A retry's way to the replica that holds its call: one HTTP request, whose answer streams back. An
 * owner that is dead or frozen is noticed by its silence, so that the next rung can serve.
 */
import type { Readable } from 'node:stream';
import { Agent, request } from 'undici';
import type { EdgeRequest, Leg } from '../bridge/leg.ts';
import type { Relay, Relayed } from '../bridge/relay.ts';
import type { Clock, Timer } from '../clock.ts';
import type { KeyRing } from '../seal/key-ring.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import { readRelayLine, writeRelayRequest, type RelayLine } from './relay-message.ts';
import { RELAY_PATH, RELAY_TOKEN_HEADER } from './relay-server.ts';
import { sealRelayToken } from './relay-token.ts';

export interface RelayClientOptions {
  readonly ring: KeyRing<'relay'>;
  readonly route: string;
  readonly maxAnswerBytes: number;
  readonly clock: Clock;
}

const CONNECT_MS = 1_000;
const HEAD_MS = 1_000;
/** Four missed signs of life. */
const SILENCE_MS = 2_000;

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
    const { ring, route, clock } = this.#options;
    if (owner.address === undefined) return { type: 'gone', problem: 'it has no address' };
    const body = writeRelayRequest({ route, request: edgeRequest });
    try {
      const answer = await request(new URL(RELAY_PATH, owner.address), {
        dispatcher: this.#agent,
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          [RELAY_TOKEN_HEADER]: await sealRelayToken(ring, owner.boot, body, clock),
        },
        body,
        signal: leg.closed,
      });
      if (answer.statusCode !== 200) {
        answer.body.on('error', () => {}).destroy();
        return { type: 'gone', problem: `it answered with HTTP ${answer.statusCode}` };
      }
      return await this.#follow(answer.body, leg);
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      const code = error instanceof Error && 'code' in error ? error.code : '';
      return { type: code === 'UND_ERR_HEADERS_TIMEOUT' ? 'silent' : 'gone', problem };
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #follow(body: Readable, leg: Leg): Promise<Relayed> {
    const watch = this.#watch(() => body.destroy(new Error('no sign of life')));
    try {
      for await (const line of lines(body, this.#options.maxAnswerBytes, watch.seen)) {
        if (line.type === 'answer') return { type: 'answered', answer: line.answer };
        leg.notify(line.method, line.params);
      }
      return { type: 'silent', problem: 'its answer ended early' };
    } catch (error) {
      return { type: 'silent', problem: error instanceof Error ? error.message : String(error) };
    } finally {
      watch.stop();
      body.on('error', () => {}).destroy();
    }
  }

  #watch(onSilence: () => void): { seen: () => void; stop: () => void } {
    const { clock } = this.#options;
    let timer: Timer = clock.setTimer(SILENCE_MS, onSilence);
    return {
      seen: () => {
        timer.cancel();
        timer = clock.setTimer(SILENCE_MS, onSilence);
      },
      stop: () => timer.cancel(),
    };
  }
}

/** The lines of an answer as they come. Throws when one is none, or longer than allowed. */
async function* lines(
  body: Readable,
  maxBytes: number,
  seen: () => void,
): AsyncGenerator<RelayLine> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of body) {
    seen();
    rest += decoder.decode(chunk as Buffer, { stream: true });
    if (rest.length > maxBytes) throw new Error('a line of its answer is too long');
    const complete = rest.split('\n');
    rest = complete.pop() ?? '';
    for (const text of complete) {
      if (text === '') continue;
      const line = readRelayLine(text);
      if (line === null) throw new Error('a line of its answer is not understood');
      yield line;
    }
  }
}
