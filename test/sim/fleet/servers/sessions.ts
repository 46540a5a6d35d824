/** The sessions of a simulated server, over any transport: its replies, its tools, its questions. */
import { Random } from '../../engine/random.ts';
import { simulation } from '../../engine/simulation.ts';
import type { Deed, Journal, JournalEntry } from './journal.ts';
import { ANSWER_WITHIN_MS, formAnswerTo, formOf, questionOf, Questions } from './questions.ts';
import { isTool, runTool, TOOLS } from './tools.ts';
import type { ServerTraits } from './traits.ts';
import { contentOf, type Report, untilWithdrawn, workOf } from './work.ts';

export type Json = Readonly<Record<string, unknown>>;

/** What a client gives to a question. */
export interface Answer {
  readonly action?: string;
  readonly content?: { readonly name?: string };
}

/** As far as it is looked at here. */
export interface Message {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: {
    readonly name?: string;
    readonly requestId?: string | number;
    readonly clientInfo?: { readonly name?: string };
    readonly arguments?: { readonly call?: string };
    readonly level?: string;
    readonly _meta?: { readonly progressToken?: string | number };
  };
  readonly result?: Answer;
  readonly error?: unknown;
}

/** Where messages go. */
export interface Line {
  /** Its name, if it can be resumed. */
  readonly name?: string;
  /** How many messages it had. */
  readonly length?: number;
  /** The process that reads it, or `nobody`. */
  reader(): string;
  send(message: Json): void;
}

/** What all sessions of a server share. */
export interface ServerOptions {
  /** Whether it demands tokens that are not over. */
  readonly takesTokens: boolean;
  readonly traits: ServerTraits;
  readonly journal: Journal;
  /** How long the tool of a call works. */
  readonly workMs: (call: string) => number;
}

export const PROTOCOL = '2025-06-18';
export const PING_EVERY_MS = 3_000;
export const PONG_WITHIN_MS = 1_000;
/** Longer than it takes to resume a stream. */
const WATCH_MS = 1_500;
/** Gateways ping twice as often. */
const SILENCE_MS = 10_000;
/** A call is made at once after the server was told of its level. */
const LEVEL_BEFORE_MS = 1_000;

export class ServerSession {
  readonly name: string;
  /** Who opened it. */
  readonly caller: string;
  readonly #options: ServerOptions;
  readonly #beside: Line;
  readonly #questions = new Questions((what, call, by, more) => this.#note(what, call, by, more));
  readonly #calls = new Map<string | number, string>();
  #hasLevel = false;
  #wasLevelAsked = false;
  #levelAskedMs = 0;
  #heardMs = 0;
  #isOver = false;
  #pings = 0;
  readonly #unansweredPings = new Set<string>();

  /** @param beside where messages go that belong to no call */
  constructor(name: string, caller: string, beside: Line, options: ServerOptions) {
    this.name = name;
    this.caller = caller;
    this.#beside = beside;
    this.#options = options;
    if (options.traits.pings) this.#pingLater();
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** What the server says of itself: whom it said it to. */
  greeting(): Json {
    return {
      protocolVersion: PROTOCOL,
      capabilities: {
        tools: { listChanged: true },
        ...(this.#options.traits.logs && { logging: {} }),
      },
      serverInfo: { name: 'simulated', version: '1' },
      instructions: `caller=${this.caller};`,
    };
  }

  /** Takes the level of what it logs. @returns false if it has too much to do for that */
  takeLevel(): boolean {
    this.#levelAskedMs = simulation().nowMs;
    this.#hasLevel ||= this.#wasLevelAsked;
    this.#wasLevelAsked = true;
    return this.#hasLevel;
  }

  /** A message came, with credentials that are good until then. @param by the process that sent it */
  heard(by: string, goodUntilMs: number): void {
    const { nowMs } = simulation();
    this.#heardMs = nowMs;
    if (!this.#options.traits.expectsPings) return;
    const check = () => {
      const isSilent = this.#heardMs === nowMs && !this.#isOver;
      const waiting = this.#questions.longest;
      if (!isSilent || waiting === null || goodUntilMs < simulation().nowMs) return;
      // It was asked after a long time of work, in which nobody pings.
      const isNew = simulation().nowMs - waiting.sinceMs < SILENCE_MS / 2;
      if (isNew) simulation().after(SILENCE_MS / 2, check);
      else this.#note('not pinged', waiting.call, by);
    };
    simulation().after(SILENCE_MS, check);
  }

  /** Its tools change. */
  change(): void {
    if (this.#isOver) return;
    this.#beside.send({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
  }

  /** Forgets all of it, as a server that starts again. */
  forget(): void {
    this.#isOver = true;
    for (const call of new Set([...this.#calls.values(), ...this.#questions.asking])) {
      this.#note('forgotten', call, 'nobody');
    }
    this.#calls.clear();
    this.#questions.forget();
  }

  /** A reply, or a notification. @param by the process that sent it */
  receive(message: Message, by: string): void {
    if (message.method === 'notifications/cancelled') {
      const call = this.#calls.get(message.params?.requestId ?? '');
      if (call !== undefined) this.#note('cancelled', call, by);
    }
    if (message.method !== undefined) return;
    const id = String(message.id);
    this.#unansweredPings.delete(id);
    this.#questions.take(id, message, by);
  }

  /** The reply to a request that is no call. */
  replyTo(method: string): Json {
    if (method === 'ping') return { result: {} };
    if (method !== 'tools/list') return { error: { code: -32_601, message: 'Method not found' } };
    const description = `caller=${this.caller};`;
    return {
      result: {
        tools: TOOLS.map((name) => ({ name, description, inputSchema: { type: 'object' } })),
      },
    };
  }

  /** Runs the tool of a call. Nothing is sent for one that the server forgets meanwhile. */
  async call(message: Message, line: Line): Promise<void> {
    const { id = '', params = {} } = message;
    const call = params.arguments?.call ?? '';
    const name = params.name ?? '';
    this.#calls.set(id, call);
    this.#note('called', call, line.reader());
    const isAsked = simulation().nowMs - this.#levelAskedMs < LEVEL_BEFORE_MS;
    if (this.#wasLevelAsked && !this.#hasLevel && !isAsked) {
      this.#note('level missing', call, line.reader());
    }
    if (!isTool(name)) {
      line.send({ jsonrpc: '2.0', id, error: { code: -32_602, message: 'Unknown tool' } });
      return;
    }
    const answers = await runTool(name, this.#workOf(call, line, params._meta?.progressToken));
    if (this.#isOver) return;
    this.#calls.delete(id);
    this.#note('ended', call, line.reader());
    const content = contentOf(call, answers, this.#options);
    line.send({ jsonrpc: '2.0', id, result: { content } });
  }

  #workOf(call: string, line: Line, progressToken: string | number | undefined) {
    const random = new Random(`${simulation().seed}:works:${call}`);
    let asked = 0;
    const report = ({ progress, message }: Report) => {
      const params = { progressToken, progress, message };
      line.send({ jsonrpc: '2.0', method: 'notifications/progress', params });
    };
    return {
      ask: (where: 'own' | 'beside') =>
        this.#ask(call, (asked += 1), where === 'own' ? line : this.#beside).answer,
      askInVain: async () => {
        const { id } = this.#ask(call, (asked += 1), line);
        await untilWithdrawn(random);
        if (!this.#questions.isOpen(id)) return;
        this.#questions.withdraw(id, line.reader());
        const withdrawn = { requestId: id, reason: 'withdrawn' };
        line.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: withdrawn });
      },
      ...workOf(call, random, this.#options, progressToken === undefined ? null : report),
      act: () => {
        if (!this.#isOver) this.#note('acted', call, line.reader());
      },
    };
  }

  #ask(call: string, nth: number, line: Line): { id: string; answer: Promise<string> } {
    // Its own by its call and not by the order of events.
    const id = `${this.name}-${call}-${nth}`;
    if (this.#isOver) return { id, answer: new Promise(() => {}) };
    const { name, length } = line;
    const place = name === undefined ? {} : { stream: name, event: (length ?? 0) + 1 };
    this.#note('asked', call, line.reader(), { question: id, ...place });
    const isForm = this.#options.traits.asksForms;
    const params = isForm ? formOf(call, id) : questionOf(call, id);
    const content = isForm ? { content: JSON.stringify(formAnswerTo(params.message)) } : {};
    const { promise: answer, resolve: settle } = Promise.withResolvers<string>();
    this.#questions.open(id, { call, name: id, settle, ...content });
    const method = isForm ? 'openai/elicitation/create' : 'elicitation/create';
    const question = { jsonrpc: '2.0', id, method, params };
    line.send(question);
    if (this.#options.traits.repeats) line.send(question);
    if (this.#options.traits.onlyRepeats) this.#watch(id, call, line);
    simulation().after(ANSWER_WITHIN_MS, () => {
      if (!this.#isOver) this.#questions.expire(id, line.reader());
    });
    return { id, answer };
  }

  /** Who waits for its client still reads the stream. */
  #watch(id: string, call: string, line: Line): void {
    const isLeft = () => this.#questions.isOpen(id) && line.reader() === 'nobody';
    simulation().after(WATCH_MS, () => {
      if (!isLeft()) return;
      simulation().after(WATCH_MS, () => {
        if (isLeft()) this.#note('left', call, 'nobody');
      });
    });
  }

  #note(what: Deed, call: string, by: string, more: Partial<JournalEntry> = {}): void {
    this.#options.journal.note(what, call, { session: this.name, by, ...more });
  }

  #pingLater(): void {
    simulation().after(PING_EVERY_MS, () => {
      if (this.#isOver) return;
      this.#pings += 1;
      const id = `ping-${this.#pings}`;
      const reader = this.#beside.reader();
      this.#unansweredPings.add(id);
      this.#beside.send({ jsonrpc: '2.0', id, method: 'ping' });
      simulation().after(PONG_WITHIN_MS, () => {
        const isRead = reader !== 'nobody' && this.#beside.reader() === reader;
        if (this.#unansweredPings.delete(id) && isRead) this.#note('ping ignored', '', reader);
      });
      this.#pingLater();
    });
  }
}
