/** A call of a legacy client: it is made in a session, and its stream read to its end. */
import type { IncomingMessage } from 'node:http';
import { simulation } from '../../engine/simulation.ts';
import { END_WITHIN_MS } from '../checker.ts';
import {
  isStream,
  type LegacyClient,
  type LegacyMessage,
  readLegacy,
  readStream,
} from './legacy-client.ts';
import type { LegacyCall } from './legacy-plans.ts';

/** A session that the server has opened. */
export interface Session {
  /** As the gateway said it. */
  readonly id: string;
  /** Whether a request in it got a 404. */
  isLost: boolean;
}

interface CallOptions {
  readonly name: string;
  readonly call: LegacyCall;
  readonly client: LegacyClient;
  /** @returns the session, a new one if the last one is lost; `null` if none can be opened */
  readonly open: () => Promise<Session | null>;
  /** Tells the server that a request is not wanted any more. */
  readonly cancel: (request: string, session: Session) => Promise<void>;
  /** Called with what the server asks and says. @param by the process that passed it on */
  readonly hear: (message: LegacyMessage, session: Session, by: string) => void;
}

export const PAUSE_MS = { least: 300, range: 1_000 } as const;
/** So long a client waits for the end of the stream of a call that is over. */
const ENDS_WITHIN_MS = 5_000;
/** No request with such an error was sent. */
const NEVER_SENT = 'ECONNREFUSED';
/** The statuses of a request that was not carried out: the session is gone, or the credentials are over. */
const NOT_DONE = [401, 404];

export class RunningCall {
  readonly #options: CallOptions;
  /** How it ended: with its result, or without. */
  #end: 'done' | 'lost' | null = null;
  #open: IncomingMessage | null = null;
  #cancelledMs: number | null = null;

  constructor(options: CallOptions) {
    this.#options = options;
  }

  /** Whether it has its result. */
  get isDone(): boolean {
    return this.#end === 'done';
  }

  /** When its client cancelled it; `null` if it did not. */
  get cancelledMs(): number | null {
    return this.#cancelledMs;
  }

  async play(): Promise<void> {
    const { call, client, open } = this.#options;
    await simulation().sleep(call.afterMs);
    this.#giveUpLater(simulation().nowMs);
    while (this.#end === null) {
      const session = await open();
      if (session === null) return this.#finish('lost', 'no session');
      await this.#try(session);
      if (this.#end === null) await client.pause(PAUSE_MS);
    }
  }

  #giveUpLater(sinceMs: number): void {
    const { name, client } = this.#options;
    if (this.#end !== null) return;
    const untilMs = client.latest(sinceMs, END_WITHIN_MS);
    if (simulation().nowMs < untilMs) {
      return simulation().at(untilMs, () => this.#giveUpLater(sinceMs));
    }
    client.around.checker.break(6, `${name} neither ends nor fails`);
    this.#finish('lost', 'too late');
    this.#open?.destroy();
  }

  /** Makes the call once. Without an end, it is to be made again: it cannot have acted. */
  async #try(session: Session): Promise<void> {
    const { name, call, client } = this.#options;
    client.tell(`begins ${name} (${call.tool})`);
    const params = { name: call.tool, arguments: { call: name }, _meta: { progressToken: name } };
    this.#cancelLater(client.nextId, session);
    const reply = await client.request('tools/call', params, session.id);
    if (reply.type === 'broken') {
      return reply.how === NEVER_SENT ? undefined : this.#finish('lost', reply.how);
    }
    const { status, response, by } = reply;
    if (status !== 200) return this.#takeFailure(status, response, session);
    if (isStream(response)) return this.#follow(session, response, by);
    const message = await readLegacy(response);
    if (message === null) this.#finish('lost', 'broken');
    else this.#take(message, session, by);
  }

  /** Cancels a request, if its client does that. */
  #cancelLater(request: string, session: Session): void {
    const { call, cancel } = this.#options;
    if (call.cancelsAfterMs === null) return;
    simulation().after(call.cancelsAfterMs, () => {
      if (this.#end !== null) return;
      this.#cancelledMs = simulation().nowMs;
      this.#finish('lost', 'its client has cancelled it');
      void cancel(request, session);
    });
  }

  async #takeFailure(status: number, response: IncomingMessage, session: Session): Promise<void> {
    const { name, client } = this.#options;
    const { checker } = client.around;
    if (status === 404) session.isLost = true;
    const mayHaveActed = (await readLegacy(response))?.error?.data?.mayHaveActed;
    const reason = `HTTP ${status}`;
    checker.failed(name, { type: 'failed', reason, mayHaveActed, isRetryable: false });
    if (mayHaveActed === 'no' || NOT_DONE.includes(status)) checker.begunAgain(name);
    else this.#finish('lost', reason);
  }

  /** Reads its stream to its end, over as many connections as it takes. */
  async #follow(session: Session, begun: IncomingMessage, begunBy: string): Promise<void> {
    const { name, client } = this.#options;
    let lastEvent = await this.#read(begun, null, session, begunBy);
    while (this.#end === null) {
      if (lastEvent === null) return this.#finish('lost', 'its stream broke');
      await client.pause(PAUSE_MS);
      client.tell(`resumes ${name} after ${lastEvent}`);
      const reply = await client.send({ method: 'GET', session: session.id, lastEvent });
      if (reply.type === 'broken') continue;
      const { status, response, by } = reply;
      if (status === 200) {
        lastEvent = await this.#read(response, lastEvent, session, by);
        continue;
      }
      response.resume();
      if (status === 404) session.isLost = true;
      if (status === 404 || status === 400) this.#finish('lost', `HTTP ${status}`);
    }
  }

  /** @returns the last event that the client has */
  async #read(
    response: IncomingMessage,
    last: string | null,
    session: Session,
    by: string,
  ): Promise<string | null> {
    let lastEvent = last;
    this.#open = response;
    await readStream(response, (id, message) => {
      lastEvent = id ?? lastEvent;
      if (message !== null) this.#take(message, session, by);
    });
    return lastEvent;
  }

  #take(message: LegacyMessage, session: Session, by: string): void {
    const { name, client, hear } = this.#options;
    hear(message, session, by);
    if (message.method !== undefined) return;
    const text = message.result?.content?.[0]?.text ?? '';
    if (message.error !== undefined || message.result?.isError === true) {
      const reason = message.error?.message ?? text;
      const mayHaveActed = message.error?.data?.mayHaveActed;
      const { checker } = client.around;
      checker.failed(name, { type: 'failed', reason, mayHaveActed, isRetryable: false });
      return this.#finish('lost', reason);
    }
    const of = /of=(\w+);/.exec(text)?.[1];
    if (of !== name) client.around.checker.break(4, `${name} has the result of ${of}`);
    this.#finish('done');
  }

  #finish(end: 'done' | 'lost', why = ''): void {
    if (this.#end !== null) return;
    const { name, client } = this.#options;
    this.#end = end;
    // Servers of the SDK do not end a stream that was resumed when they have repeated all of it.
    simulation().after(ENDS_WITHIN_MS, () => this.#open?.destroy());
    if (end === 'lost') client.around.checker.left(name);
    client.tell(end === 'done' ? `has the result of ${name}` : `has lost ${name}: ${why}`);
  }
}
