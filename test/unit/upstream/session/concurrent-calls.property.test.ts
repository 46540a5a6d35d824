/**
 * Random histories of several calls in one session. The server is played, and so it is known which call asked each
 * question: no other call may be asked it, each gets one reply at most, and none is held for ever. A tool that asks several
 * questions at once sends them in one turn, before the server replies to a ping that came after the first, and does nothing more
 * until it is answered, or gives up after a minute, and then asks no more another minute later. After a question on its stream it asks none beside it until then (ADR 48).
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  serverRequestId,
  type ServerRequestId,
  type UpstreamRequestId,
} from '../../../../src/protocol/ids.ts';
import type { ExactNumber } from '../../../../src/protocol/json.ts';
import { BroadcastDetector } from '../../../../src/upstream/discovery/broadcast-detector.ts';
import { UpstreamFailure } from '../../../../src/model/upstream-failure.ts';
import type { CallExchange } from '../../../../src/upstream/session/call-exchange.ts';
import type { Session } from '../../../../src/upstream/session/session.ts';
import type { Transport, TransportListener } from '../../../../src/upstream/transport/transport.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';
import { playedSession, playedTransport } from '../../../fixtures/played-session.ts';

const METHODS = ['elicitation/create', 'sampling/createMessage'] as const;
/** The server replies to pings within this time. */
const PONG_MS = 1_000;
const ANSWER_WAIT_MS = 60_000;
const STOPPED_MS = 15_000;
const UNFINISHED_MS = 600_000;

/** A call as the server and the client know it. */
interface Tool {
  readonly exchange: CallExchange;
  /** The questions that its client was shown and has not answered. */
  readonly shown: Set<ServerRequestId>;
  /** Its questions that wait for a reply. A tool does not end before. */
  readonly waitsFor: Set<ServerRequestId>;
  isRunning: boolean;
  lastAskedMs: number;
  /** When the turn in which it asks began, as a number of the history; `null` if it is over. */
  turnSince: number | null;
  /** Whether its last question came on its own stream. */
  lastOnStream: boolean;
  /** When the client left, and until when the tool can ask. */
  asksUntilMs: number;
}

interface Question {
  readonly requester: Tool;
  readonly isEveryones: boolean;
  isWithdrawn: boolean;
  /** It was shown to the client of a call that is gone, which nobody can answer for. */
  isLost: boolean;
  replies: number;
}

class History {
  readonly clock = new ManualClock();
  readonly tools: Tool[] = [];
  readonly questions = new Map<ServerRequestId, Question>();
  readonly #kind: Transport['kind'];
  #server: TransportListener | null = null;
  readonly #session: Session;
  #takesCancellation = true;
  /** Counts the questions and pings. */
  #messages = 0;
  #pings: { readonly id: UpstreamRequestId; readonly at: number; readonly sentMs: number }[] = [];

  constructor(kind: Transport['kind']) {
    this.#kind = kind;
    const detector = new BroadcastDetector({ now: () => this.clock.now(), hasSiblings: false });
    this.#session = playedSession((listener) => this.#connect(listener), detector, this.clock);
  }

  start(): void {
    const shown = new Set<ServerRequestId>();
    const exchange = this.#session.call(
      'tools/call',
      () => ({}),
      {
        notTaken: () => {},
        asked: (id) => {
          this.#mayBeAsked(tool, id);
          shown.add(id);
        },
        withdrawn: (id) => void shown.delete(id),
        unanswerable: () => {},
        notified: () => {},
        replied: () => (tool.isRunning = false),
        interrupted: () => {},
        resumed: () => {},
        lost: () => (tool.isRunning = false),
        backlog: () => null,
      },
      {},
    );
    const waitsFor = new Set<ServerRequestId>();
    const tool: Tool = {
      ...{ exchange, shown, waitsFor, isRunning: true },
      ...{ lastAskedMs: 0, turnSince: null, lastOnStream: false, asksUntilMs: Infinity },
    };
    this.tools.push(tool);
    this.#server?.accepted(exchange.id);
  }

  /** @param where on the stream of the call, beside it, or for the roots of the client */
  ask(pick: number, where: 'on-stream' | 'uncorrelated' | 'roots'): void {
    const nowMs = this.clock.now();
    const asking = this.tools.filter(({ asksUntilMs, waitsFor, turnSince, lastOnStream }) => {
      if (asksUntilMs <= nowMs) return false;
      const isBesideIt = where === 'uncorrelated' && lastOnStream;
      return waitsFor.size === 0 || (turnSince !== null && !isBesideIt);
    });
    const requester = pickOf(asking, pick);
    if (requester === undefined) return;
    const isOnStream = where === 'on-stream' && this.#kind === 'streamable-http';
    // The stream of a call is closed with it.
    if (isOnStream && !requester.isRunning) return;
    const id = serverRequestId(this.questions.size);
    const isEveryones = where === 'roots';
    const method = isEveryones ? 'roots/list' : (METHODS[pick % 2] ?? METHODS[0]);
    // Nobody's client is there to answer for, and HTTP+SSE leaves it unanswered.
    const isLost = !this.tools.some(({ isRunning }) => isRunning);
    const question = { requester, isEveryones, isWithdrawn: false, isLost, replies: 0 };
    this.questions.set(id, question);
    this.#messages += 1;
    if (requester.waitsFor.size === 0) requester.turnSince = this.#messages;
    requester.waitsFor.add(id);
    requester.lastAskedMs = nowMs;
    if (!isEveryones) requester.lastOnStream = isOnStream;
    const source = isOnStream
      ? ({ stream: 'request', id: requester.exchange.id } as const)
      : ({ stream: 'standalone' } as const);
    this.#server?.message({ type: 'request', id: id as number, method, params: {} }, source);
  }

  /** The server replies to the pings that it has read: what was asked in the same turn as an earlier question came before. */
  pong(): void {
    for (const { id, at } of this.#pings.splice(0)) {
      for (const tool of this.tools) if ((tool.turnSince ?? at) < at) tool.turnSince = null;
      const reply = { type: 'response', id: id as number, reply: { result: {} } } as const;
      const source =
        this.#kind === 'http-sse'
          ? ({ stream: 'standalone' } as const)
          : ({ stream: 'request', id } as const);
      this.#server?.message(reply, source);
    }
  }

  async pass(ms: number): Promise<void> {
    const untilMs = this.clock.now() + ms;
    if (this.#pings.some(({ sentMs }) => untilMs - sentMs >= PONG_MS)) this.pong();
    await settle();
    this.clock.advance(ms);
  }

  /** The server replies to a call of which no question waits. What its client was shown is closed out. */
  async end(pick: number): Promise<void> {
    const tool = pickOf(
      this.tools.filter(({ isRunning, waitsFor }) => isRunning && waitsFor.size === 0),
      pick,
    );
    if (tool === undefined) return;
    tool.asksUntilMs = 0;
    const { id } = tool.exchange;
    const reply = { result: {} };
    const source =
      this.#kind === 'http-sse'
        ? ({ stream: 'standalone' } as const)
        : ({ stream: 'request', id } as const);
    this.#server?.message({ type: 'response', id: id as number, reply }, source);
    await this.#answerAll(tool);
  }

  async answer(pick: number): Promise<void> {
    const tool = pickOf(
      this.tools.filter(({ isRunning, shown }) => isRunning && shown.size > 0),
      pick,
    );
    if (tool !== undefined) await this.#answerAll(tool);
  }

  withdraw(pick: number): void {
    const waiting = [...this.questions].filter(
      ([, { isWithdrawn, replies }]) => !isWithdrawn && replies === 0,
    );
    const [id, question] = pickOf(waiting, pick) ?? [];
    if (id === undefined || question === undefined) return;
    question.isWithdrawn = true;
    question.requester.waitsFor.delete(id);
    const params = { requestId: id };
    this.#server?.message(
      { type: 'notification', method: 'notifications/cancelled', params },
      { stream: 'standalone' },
    );
  }

  /** A tool gives up to wait for its answers, without a word. */
  giveUp(pick: number): void {
    const nowMs = this.clock.now();
    const tool = pickOf(
      this.tools.filter(
        ({ waitsFor, lastAskedMs }) => waitsFor.size > 0 && nowMs - lastAskedMs >= ANSWER_WAIT_MS,
      ),
      pick,
    );
    if (tool === undefined) return;
    for (const id of tool.waitsFor) {
      const question = this.questions.get(id);
      if (question !== undefined) question.isLost = true;
    }
    tool.waitsFor.clear();
    const untilMs = tool.lastAskedMs + ANSWER_WAIT_MS + STOPPED_MS;
    tool.asksUntilMs = Math.min(tool.asksUntilMs, untilMs);
  }

  /** The client leaves a call, as `src/calls` does it. */
  async cancel(pick: number, isTaken: boolean): Promise<void> {
    const tool = pickOf(
      this.tools.filter(({ isRunning }) => isRunning),
      pick,
    );
    if (tool === undefined) return;
    this.#takesCancellation = isTaken;
    if (await tool.exchange.cancel('the client left', {})) await this.#answerAll(tool);
    this.#leave(tool, isTaken ? STOPPED_MS : UNFINISHED_MS);
    tool.exchange.abandon();
  }

  lose(pick: number): void {
    const tool = pickOf(
      this.tools.filter(({ isRunning }) => isRunning),
      pick,
    );
    if (tool === undefined || this.#kind === 'http-sse') return;
    this.#leave(tool, UNFINISHED_MS);
    const failure = new UpstreamFailure('upstream_unavailable', 'broken', { mayHaveActed: true });
    this.#server?.lost(tool.exchange.id, failure);
  }

  /** Lets everything end: clients answer, time passes, and tools end. */
  async finish(): Promise<void> {
    for (let turn = 0; turn < 3; turn += 1) {
      for (const tool of this.tools) if (tool.isRunning) await this.#answerAll(tool);
      await this.pass(0);
      this.pong();
      await this.pass(30_000);
      await settle();
    }
    for (let count = this.tools.length; count > 0; count -= 1) await this.end(0);
    this.pong();
    await this.pass(0);
    await this.pass(0);
  }

  #leave(tool: Tool, asksForMs: number): void {
    tool.isRunning = false;
    tool.asksUntilMs = this.clock.now() + asksForMs;
    for (const id of tool.shown) {
      const question = this.questions.get(id);
      if (question !== undefined) question.isLost = true;
    }
  }

  #mayBeAsked(tool: Tool, id: ServerRequestId): void {
    const question = this.questions.get(id);
    expect(question, 'a question of the server').toBeDefined();
    expect(question?.isWithdrawn).toBe(false);
    expect(tool.isRunning).toBe(true);
    if (question?.isEveryones === true) question.isLost = false;
    else expect(question?.requester).toBe(tool);
  }

  async #answerAll(tool: Tool): Promise<void> {
    for (const id of [...tool.shown]) {
      tool.shown.delete(id);
      await tool.exchange.respond(id, { result: {} }, {});
    }
    await settle();
  }

  #replied(id: ServerRequestId | ExactNumber): void {
    const question = this.questions.get(id as ServerRequestId);
    expect(question, 'a question of the server').toBeDefined();
    if (question === undefined) return;
    question.replies += 1;
    question.requester.waitsFor.delete(id as ServerRequestId);
    expect(question.replies).toBe(1);
  }

  #connect(listener: TransportListener): Transport {
    this.#server = listener;
    return playedTransport({
      kind: this.#kind,
      request: ({ id, method }) => {
        if (method !== 'ping') return;
        this.#messages += 1;
        this.#pings.push({ id, at: this.#messages, sentMs: this.clock.now() });
      },
      notify: async () => {
        if (!this.#takesCancellation) throw new Error('refused');
      },
      respond: async (id) => this.#replied(id),
    });
  }
}

type Step = (history: History) => void | Promise<void>;

const pick = fc.nat(1_000);
const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: fc.constant<Step>((history) => history.start()) },
  {
    weight: 6,
    arbitrary: fc
      .tuple(pick, fc.constantFrom('on-stream', 'uncorrelated', 'uncorrelated', 'roots'))
      .map(
        ([of, where]): Step =>
          (history) =>
            history.ask(of, where),
      ),
  },
  {
    weight: 4,
    arbitrary: pick.map(
      (of): Step =>
        (history) =>
          history.end(of),
    ),
  },
  {
    weight: 4,
    arbitrary: pick.map(
      (of): Step =>
        (history) =>
          history.answer(of),
    ),
  },
  {
    weight: 1,
    arbitrary: pick.map(
      (of): Step =>
        (history) =>
          history.withdraw(of),
    ),
  },
  {
    weight: 2,
    arbitrary: pick.map(
      (of): Step =>
        (history) =>
          history.giveUp(of),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(pick, fc.boolean()).map(
      ([of, isTaken]): Step =>
        (history) =>
          history.cancel(of, isTaken),
    ),
  },
  {
    weight: 1,
    arbitrary: pick.map(
      (of): Step =>
        (history) =>
          history.lose(of),
    ),
  },
  { weight: 3, arbitrary: fc.constant<Step>((history) => history.pong()) },
  {
    weight: 3,
    arbitrary: fc.constantFrom(0, 1, 100, 250, 1_000, 4_999, 20_000, 59_999, 60_000, 300_000).map(
      (ms): Step =>
        (history) =>
          history.pass(ms),
    ),
  },
);

// Rules concurrent-1, concurrent-2, concurrent-3, concurrent-4, concurrent-5, concurrent-11.
test.each(['streamable-http', 'http-sse'] as const)(
  'no call is asked what another one asked, and every question ends, over %s',
  async (kind) => {
    await fc.assert(
      fc.asyncProperty(fc.array(steps, { minLength: 5, maxLength: 40 }), async (all) => {
        const history = new History(kind);
        for (const step of all) {
          await step(history);
          await settle();
        }
        await history.finish();
        for (const { isWithdrawn, isLost, replies } of history.questions.values()) {
          if (!isWithdrawn && !isLost) expect(replies).toBe(1);
          expect(replies).toBeLessThanOrEqual(1);
        }
        expect(history.clock.pending).toBe(0);
      }),
      { numRuns: 400 },
    );
  },
);

/** Lets all promises that are settled run on. */
async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

function pickOf<Item>(items: readonly Item[], pick: number): Item | undefined {
  return items[pick % Math.max(1, items.length)];
}
