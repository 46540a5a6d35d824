/** A legacy client of a few lines: asked on the stream of its call, answering over another request. */
import type { Readable } from 'node:stream';
import { request, type Agent } from 'undici';
import { legacyAnswer, legacyCall, markOf, type HttpCall } from './messages.ts';

export class LegacyClient {
  readonly #agent: Agent;
  readonly #url: string;
  readonly #session: string;
  #nextId = 1;

  constructor(agent: Agent, url: string, session: string) {
    this.#agent = agent;
    this.#url = url;
    this.#session = session;
  }

  /** Calls the tool that asks, and answers it. @returns when the question and when the result had come */
  async askAndAnswer(): Promise<{ readonly askedAt: number; readonly answeredAt: number }> {
    const callNumber = this.#nextId;
    this.#nextId += 1;
    const stream = await this.#post(legacyCall('ask', callNumber, this.#session));
    let askedAt: number | null = null;
    for await (const message of events(stream)) {
      if (message.method === 'elicitation/create') {
        askedAt = performance.now();
        const taken = await this.#post(legacyAnswer(Number(message.id), callNumber, this.#session));
        taken.resume();
      } else if (message.id === callNumber && askedAt !== null) {
        const answeredAt = performance.now();
        if (!JSON.stringify(message.result).includes(markOf(callNumber))) break;
        return { askedAt, answeredAt };
      }
    }
    throw new Error('the stream ended without the result of its call');
  }

  async #post({ headers, body }: HttpCall): Promise<Readable> {
    const answer = await request(this.#url, {
      dispatcher: this.#agent,
      method: 'POST',
      headers,
      body,
    });
    return answer.body;
  }
}

interface Message {
  readonly id?: unknown;
  readonly method?: unknown;
  readonly result?: unknown;
}

/** The messages of an event stream whose events are all of one line of data. */
async function* events(stream: Readable): AsyncGenerator<Message> {
  let rest = '';
  for await (const chunk of stream as AsyncIterable<Uint8Array>) {
    rest += Buffer.from(chunk).toString('utf8');
    const blocks = rest.split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      yield JSON.parse(block.slice(block.indexOf('data: ') + 'data: '.length)) as Message;
    }
  }
}
