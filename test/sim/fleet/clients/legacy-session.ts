/** A legacy client: it opens a session, listens, makes calls in it, answers what is asked, and opens another one after a 404. */
import type { IncomingMessage } from 'node:http';
import { simulation } from '../../engine/simulation.ts';
import { END_WITHIN_MS } from '../checker.ts';
import type { Surroundings } from '../caller.ts';
import { answerTo } from '../servers/questions.ts';
import { PAUSE_MS, RunningCall, type Session } from './legacy-call.ts';
import { LegacyClient, type LegacyMessage, readLegacy, readStream } from './legacy-client.ts';
import { type LegacyCall, nameOfLegacy, type PlannedSession } from './legacy-plans.ts';
import { STRANGER } from './strangers.ts';

const LISTEN_PAUSE_MS = { least: 3_000, range: 1_000 } as const;
/** So long the client waits for the head of its stream before it begins. */
const HEAD_WITHIN_MS = 1_000;
const ENDS_WITHIN_MS = 10_000;
const CAPABILITIES = { elicitation: { form: {} } };
/** In place of those of the history, when all is healed. */
const LAST_CALL: LegacyCall = {
  ...{ id: 1_000, tool: 'turns', afterMs: 0, thinkMs: 0, workMs: 0 },
  cancelsAfterMs: null,
};

export class LegacySession {
  /** What the client says that its name is. */
  readonly name: string;
  readonly #planned: PlannedSession;
  readonly #client: LegacyClient;
  #session: Session | null = null;
  #opening: Promise<Session | null> | null = null;
  readonly #calls = new Map<string, RunningCall>();
  readonly #answered = new Set<string | number>();
  readonly #withdrawn = new Set<string | number>();
  #listening: IncomingMessage | null = null;
  #isOver = false;
  /** When a change of the tools was heard last. */
  heardMs = -Infinity;
  /** When its streams ended. */
  readonly endedMs: number[] = [];

  constructor(planned: PlannedSession, around: Surroundings) {
    this.#planned = planned;
    this.name = `legacy${planned.id}`;
    this.#client = new LegacyClient(this.name, planned, around);
  }

  /** Whether a call has its result. */
  isDone(name: string): boolean {
    return this.#calls.get(name)?.isDone === true;
  }

  /** When a call was cancelled; `null` if it was not. */
  cancelledMs(name: string): number | null {
    return this.#calls.get(name)?.cancelledMs ?? null;
  }

  async play(): Promise<void> {
    const { atMs, calls, isForged } = this.#planned;
    await simulation().sleep(atMs);
    const session = await this.#open();
    if (session === null) return;
    if (isForged && this.#client.around.hasTokens) await this.#forge(session);
    await Promise.all(calls.map((call) => this.#call(call)));
  }

  /** When all is healed: the session works, or gets a 404, and another one works. */
  async playLast(): Promise<void> {
    const name = await this.#call(LAST_CALL);
    if (this.isDone(name)) return;
    this.#client.around.checker.break(6, `${name} has no result, when all is free`);
  }

  /** Deletes the session, or only closes its connections. */
  async end(): Promise<void> {
    const session = this.#session;
    const stream = this.#listening;
    this.#isOver = true;
    const isToDelete = session !== null && !session.isLost && this.#planned.isDeleted;
    if (isToDelete && (await this.#delete(session)) && stream !== null) {
      if (!(await isClosedSoon(stream))) {
        this.#client.around.checker.break(7, `the stream of ${this.name} outlives its session`);
      }
    }
    this.#client.leave();
  }

  /** @returns whether the server has deleted it */
  async #delete({ id }: Session): Promise<boolean> {
    const reply = await this.#client.send({ method: 'DELETE', session: id });
    if (reply.type === 'head') reply.response.resume();
    this.#client.tell(`deletes its session: ${reply.type === 'head' ? reply.status : reply.how}`);
    return reply.type === 'head' && reply.status === 200;
  }

  /** @returns `null` if that takes too long, which breaks a law */
  #open(): Promise<Session | null> {
    if (this.#session !== null && !this.#session.isLost) return Promise.resolve(this.#session);
    this.#opening ??= this.#initialize().finally(() => (this.#opening = null));
    return this.#opening;
  }

  async #initialize(): Promise<Session | null> {
    const beginMs = simulation().nowMs;
    const params = {
      protocolVersion: this.#planned.revision,
      capabilities: CAPABILITIES,
      clientInfo: { name: this.name, version: '1' },
    };
    while (simulation().nowMs < this.#client.latest(beginMs, END_WITHIN_MS)) {
      const reply = await this.#client.request('initialize', params, null);
      const message = reply.type === 'head' ? await readLegacy(reply.response) : null;
      const id = reply.type === 'head' ? reply.response.headers['mcp-session-id'] : undefined;
      if (message?.result !== undefined && typeof id === 'string') {
        return this.#begin({ id, isLost: false }, message.result.instructions ?? '');
      }
      await this.#client.pause(PAUSE_MS);
    }
    this.#client.around.checker.break(6, `${this.name} cannot open a session`);
    return null;
  }

  async #begin(session: Session, greeting: string): Promise<Session> {
    const greeted = /caller=(\w+);/.exec(greeting)?.[1];
    const { caller } = this.#planned;
    if (greeted !== caller && greeted !== 'nobody') {
      this.#client.around.checker.break(9, `${this.name} of ${caller} is greeted as ${greeted}`);
    }
    this.#session = session;
    this.#client.tell('has a session');
    await this.#post({ jsonrpc: '2.0', method: 'notifications/initialized' }, session);
    const { promise: head, resolve } = Promise.withResolvers<void>();
    void this.#listen(session, resolve);
    await Promise.race([head, simulation().sleep(HEAD_WITHIN_MS)]);
    return session;
  }

  /** Reads the stream of a session for as long as that lasts. */
  async #listen(session: Session, onHead: () => void): Promise<void> {
    let lastEvent: string | null = null;
    while (!this.#isOver && !session.isLost) {
      const reply = await this.#client.send({ method: 'GET', session: session.id, lastEvent });
      if (reply.type === 'head' && (reply.status !== 200 || this.#isOver)) {
        reply.response.destroy();
        if (reply.status === 404) session.isLost = true;
      } else if (reply.type === 'head') {
        onHead();
        this.#listening = reply.response;
        await readStream(reply.response, (id, message) => {
          lastEvent = id ?? lastEvent;
          if (message !== null) this.#hear(message, null, session, reply.by);
        });
        this.#listening = null;
        this.endedMs.push(simulation().nowMs);
      }
      await this.#client.pause(LISTEN_PAUSE_MS);
    }
  }

  /** @returns its name */
  async #call(call: LegacyCall): Promise<string> {
    const name = nameOfLegacy(this.#planned.id, call.id);
    const running = new RunningCall({
      ...{ name, call, client: this.#client },
      open: () => this.#open(),
      cancel: (request, session) => this.#cancel(request, session),
      hear: (message, session, by) => this.#hear(message, name, session, by),
    });
    this.#calls.set(name, running);
    await running.play();
    return name;
  }

  /** @param call that of the stream on which the message came; `null` for the stream of the session */
  #hear(message: LegacyMessage, call: string | null, session: Session, by: string): void {
    const { id, method, params = {} } = message;
    if (method === 'notifications/tools/list_changed') this.heardMs = simulation().nowMs;
    if (method === 'notifications/cancelled') this.#withdrawn.add(params.requestId ?? '');
    if (method === 'ping') void this.#post({ jsonrpc: '2.0', id, result: {} }, session);
    if (method !== 'elicitation/create' || params.message === undefined) return;
    const asking = /call=(\w+);/.exec(params.message)?.[1] ?? '';
    const { checker } = this.#client.around;
    if (!this.#calls.has(asking)) checker.break(4, `${this.name} is shown a question of ${asking}`);
    checker.shown(call ?? asking, params);
    void this.#answer(id, params.message, asking, session, by);
  }

  async #answer(
    id: string | number | undefined,
    message: string,
    asking: string,
    session: Session,
    by: string,
  ): Promise<void> {
    if (id === undefined || this.#answered.has(id)) return;
    this.#answered.add(id);
    this.#client.tell(`is shown a question of ${asking}`);
    simulation().onMoment('shown', by);
    const { id: self, calls } = this.#planned;
    const thinkMs = calls.find((call) => nameOfLegacy(self, call.id) === asking)?.thinkMs ?? 0;
    await simulation().sleep(thinkMs);
    const result = { action: 'accept', content: { name: answerTo(message) } };
    if (!this.#withdrawn.has(id)) await this.#post({ jsonrpc: '2.0', id, result }, session);
  }

  #cancel(requestId: string, session: Session): Promise<void> {
    const params = { requestId, reason: 'the user has changed their mind' };
    return this.#post({ jsonrpc: '2.0', method: 'notifications/cancelled', params }, session);
  }

  /** Sends what has no reply, until it was taken, or the session is lost. */
  async #post(message: object, session: Session): Promise<void> {
    const beginMs = simulation().nowMs;
    while (!session.isLost && !this.#isOver) {
      const reply = await this.#client.send({ method: 'POST', session: session.id, message });
      if (reply.type === 'head') {
        reply.response.resume();
        if (reply.status === 202) return;
        if (reply.status === 404) session.isLost = true;
      }
      if (simulation().nowMs > this.#client.latest(beginMs, END_WITHIN_MS)) {
        return this.#client.around.checker.break(6, `a message of ${this.name} is not taken`);
      }
      await this.#client.pause(PAUSE_MS);
    }
  }

  /** Law 9: a session is of use to its caller only. */
  async #forge({ id }: Session): Promise<void> {
    const message = { jsonrpc: '2.0', id: 'forged', method: 'tools/list' };
    const forged = { caller: STRANGER, method: 'POST', session: id, message } as const;
    const reply = await this.#client.send(forged);
    if (reply.type === 'broken') return;
    reply.response.resume();
    if (reply.status !== 200) return;
    this.#client.around.checker.break(9, `a stranger uses the session of ${this.name}`);
  }
}

function isClosedSoon(stream: IncomingMessage): Promise<boolean> {
  const { promise: isClosed, resolve } = Promise.withResolvers<boolean>();
  if (stream.closed) resolve(true);
  else stream.once('close', () => resolve(true));
  simulation().after(ENDS_WITHIN_MS, () => resolve(false));
  return isClosed;
}
