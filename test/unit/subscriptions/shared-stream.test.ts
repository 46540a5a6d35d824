/** One upstream stream for many listeners: what happens to them when it breaks, and to it when they go. */
import { describe, expect, test } from 'vitest';
import { clientRequestId } from '../../../src/protocol/ids.ts';
import type { JsonObject } from '../../../src/protocol/json.ts';
import { readFilter, Listener } from '../../../src/subscriptions/filter.ts';
import {
  SharedStream,
  type NotifyingLease,
  type NotifyingSession,
} from '../../../src/subscriptions/shared-stream.ts';
import type { ChangeListener } from '../../../src/upstream/session/session-state.ts';
import { UpstreamFailure, type UpstreamFailureCode } from '../../../src/model/upstream-failure.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const EVERYTHING = {
  tools: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
};

class FakeSession implements NotifyingSession {
  readonly initializeResult;
  readonly isDescribed: boolean;
  readonly canPush: boolean;
  readonly canPushLater: boolean;
  readonly asked: string[] = [];
  givenBack = 0;
  pinged = false;
  changes: ChangeListener | null = null;
  answer: () => Promise<{ result: JsonObject }> = async () => ({ result: {} });

  readonly #onStreamOpening: () => void;

  constructor(capabilities: JsonObject | null, canPushLater: boolean, onStreamOpening: () => void) {
    this.isDescribed = capabilities !== null;
    this.#onStreamOpening = onStreamOpening;
    this.canPush = !canPushLater;
    this.canPushLater = canPushLater;
    this.initializeResult = {
      protocolVersion: '2025-11-25' as const,
      capabilities: capabilities ?? {},
      runsToolTasks: false,
      raw: { serverInfo: { name: 'fake', version: '1' } },
    };
  }

  async openStandaloneStream(): Promise<void> {
    this.#onStreamOpening();
  }
  observe(listener: ChangeListener): void {
    this.changes = listener;
  }
  keepAlive(on: boolean): void {
    this.pinged = on;
  }
  reveals(text: string): boolean {
    return text.includes('session-id');
  }
  async request(method: string, params: JsonObject): Promise<{ result: JsonObject }> {
    this.asked.push(`${method} ${String(params['uri'])}`);
    return this.answer();
  }
  lose(code: UpstreamFailureCode = 'session_gone'): void {
    this.changes?.lost(failureOf(code));
  }
}

function failureOf(code: UpstreamFailureCode): UpstreamFailure {
  return new UpstreamFailure(code, 'as the test wants it', { mayHaveActed: false });
}

/** Lets everything happen that waits for nothing but promises. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

class Stage {
  readonly clock = new ManualClock();
  readonly sessions: FakeSession[] = [];
  readonly troubles: string[] = [];
  readonly stream: SharedStream;
  /** `null` if the server has not said what it offers. */
  capabilities: JsonObject | null = EVERYTHING;
  /** What opening a session fails with, while it does. */
  failsWith: UpstreamFailureCode | null = null;
  opening: Promise<void> = Promise.resolve();
  /** Whether the server has a stream, and does not open it for now. */
  isStreamDue = false;
  /** Called while the stream of a session is being opened. */
  onStreamOpening = () => {};
  attempts = 0;
  ended = 0;
  /** Has calls of the caller go on in another session. */
  replace = () => {};
  #nextId = 1;

  constructor() {
    this.stream = new SharedStream({
      lease: (onReplaced) => {
        this.replace = onReplaced;
        return this.#lease();
      },
      headers: {},
      clock: this.clock,
      onTrouble: ({ code }) => this.troubles.push(code),
      onEnd: () => (this.ended += 1),
    });
  }

  get session(): FakeSession {
    const session = this.sessions.at(-1);
    if (session === undefined) throw new Error('no session was opened');
    return session;
  }

  listener(notifications: JsonObject) {
    const heard: string[] = [];
    const closed = new AbortController();
    const waiter = {
      notify: (method: string, { uri, notifications: given }: JsonObject) => {
        const what =
          typeof uri === 'string' ? uri : given === undefined ? '' : JSON.stringify(given);
        heard.push(`${method.replace('notifications/', '')} ${what}`.trim());
      },
      closed: closed.signal,
    };
    const id = clientRequestId(this.#nextId++);
    return { listener: new Listener(id, readFilter({ notifications }, 10), waiter), heard };
  }

  async joined(notifications: JsonObject) {
    const made = this.listener(notifications);
    await this.stream.join(made.listener);
    return made;
  }

  /** Lets so much time pass, in steps in which everything else may happen. */
  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 100) {
      this.clock.advance(Math.min(left, 100));
      await settle();
    }
  }

  async #lease(): Promise<NotifyingLease> {
    this.attempts += 1;
    await this.opening;
    if (this.failsWith !== null) throw failureOf(this.failsWith);
    const session = new FakeSession(this.capabilities, this.isStreamDue, () =>
      this.onStreamOpening(),
    );
    this.sessions.push(session);
    return { session, giveBack: () => void (session.givenBack += 1) };
  }
}

const TOOLS = { toolsListChanged: true };
const ACKNOWLEDGED_TOOLS = 'subscriptions/acknowledged {"toolsListChanged":true}';

describe('a stream', () => {
  test('is opened once for all who come, kept alive, and closed after the last', async () => {
    const stage = new Stage();
    const [one, two] = await Promise.all([stage.joined(TOOLS), stage.joined(TOOLS)]);
    expect(stage.attempts).toBe(1);
    expect(stage.session.pinged).toBe(true);
    stage.session.changes?.changed('notifications/tools/list_changed', {});
    expect(one.heard).toEqual([ACKNOWLEDGED_TOOLS, 'tools/list_changed']);
    expect(two.heard).toEqual(one.heard);
    stage.stream.leave(one.listener);
    await settle();
    expect([stage.ended, stage.session.givenBack]).toEqual([0, 0]);
    stage.stream.leave(two.listener);
    stage.stream.leave(two.listener);
    await settle();
    expect([stage.ended, stage.session.givenBack]).toEqual([1, 1]);
    expect(stage.clock.pending).toBe(0);
  });

  test('whose only listener leaves while it is being opened is closed when it is', async () => {
    const stage = new Stage();
    const { promise, resolve } = Promise.withResolvers<void>();
    stage.opening = promise;
    const { listener } = stage.listener(TOOLS);
    const joining = stage.stream.join(listener).catch(() => 'refused');
    stage.stream.leave(listener);
    resolve();
    expect(await joining).toBe('refused');
    expect(stage.session.givenBack).toBe(1);
  });

  test('that cannot be opened refuses those who wait for it', async () => {
    const stage = new Stage();
    stage.failsWith = 'unauthorized';
    await expect(stage.joined(TOOLS)).rejects.toMatchObject({ code: 'unauthorized' });
  });

  // Rule subscriptions-5.
  test('that the server does not open for now refuses those who want what comes on it', async () => {
    const stage = new Stage();
    stage.isStreamDue = true;
    await expect(stage.joined(TOOLS)).rejects.toMatchObject({ code: 'upstream_unavailable' });
    expect([stage.session.givenBack, stage.session.pinged]).toEqual([1, false]);
  });

  // Rule subscriptions-5.
  test('that the server does not open for now is not missed by those who want nothing of it', async () => {
    const stage = new Stage();
    stage.isStreamDue = true;
    stage.capabilities = { tools: { listChanged: true } };
    const { heard } = await stage.joined({ promptsListChanged: true });
    expect(heard).toEqual(['subscriptions/acknowledged {}']);
  });

  test('hands on nothing in which the id of its session stands', async () => {
    const stage = new Stage();
    const { heard } = await stage.joined({ resourceSubscriptions: ['a:1'] });
    stage.session.changes?.changed('notifications/resources/updated', { uri: 'a:1/session-id' });
    expect(heard).toHaveLength(1);
  });
});

describe('a resource', () => {
  // Rule subscriptions-3.
  test('on which the server says nothing in time is left out, and unsubscribed from when it comes', async () => {
    const stage = new Stage();
    await stage.joined(TOOLS);
    const late = Promise.withResolvers<{ result: JsonObject }>();
    stage.session.answer = () => late.promise;
    const { listener, heard } = stage.listener({ resourceSubscriptions: ['a:1'] });
    const joining = stage.stream.join(listener);
    await stage.pass(2_100);
    await joining;
    expect(heard).toEqual(['subscriptions/acknowledged {}']);
    late.resolve({ result: {} });
    await settle();
    expect(stage.session.asked).toEqual(['resources/subscribe a:1', 'resources/unsubscribe a:1']);
  });

  test('is given back when its listener leaves in the middle of subscribing', async () => {
    const stage = new Stage();
    await stage.joined(TOOLS);
    const late = Promise.withResolvers<{ result: JsonObject }>();
    stage.session.answer = () => late.promise;
    const { listener } = stage.listener({ resourceSubscriptions: ['a:1'] });
    const joining = stage.stream.join(listener);
    await settle();
    stage.stream.leave(listener);
    late.resolve({ result: {} });
    await joining;
    await settle();
    expect(stage.session.asked).toEqual(['resources/subscribe a:1', 'resources/unsubscribe a:1']);
  });
});

describe('a stream that is lost', () => {
  test('is replaced at once; listeners get a hint at what they may have missed', async () => {
    const stage = new Stage();
    const { heard } = await stage.joined({ ...TOOLS, resourceSubscriptions: ['a:1'] });
    const [first] = stage.sessions;
    stage.session.lose();
    await stage.pass(100);
    expect(first?.givenBack).toBe(1);
    expect(stage.sessions).toHaveLength(2);
    expect(stage.session.asked).toEqual(['resources/subscribe a:1']);
    expect(heard.slice(1)).toEqual(['tools/list_changed', 'resources/updated a:1']);
    expect(stage.troubles).toEqual(['session_gone']);
  });

  // Rules changes-5, changes-6.
  // Rule changes-9.
  test('that is no longer that of the calls is left for theirs', async () => {
    const stage = new Stage();
    const { heard } = await stage.joined({ resourceSubscriptions: ['test://a'] });
    const [first] = stage.sessions;
    stage.replace();
    await stage.pass(100);
    expect([stage.sessions.length, first?.givenBack]).toEqual([2, 1]);
    expect(stage.session.asked).toEqual(['resources/subscribe test://a']);
    expect(heard.slice(1)).toEqual(['resources/updated test://a']);
  });

  // Rule changes-9.
  test('that is replaced while its stream is being opened offers nothing, and is left', async () => {
    const stage = new Stage();
    const { listener, heard } = stage.listener(TOOLS);
    stage.onStreamOpening = () => stage.replace();
    await expect(stage.stream.join(listener)).rejects.toMatchObject({ code: 'session_gone' });
    expect(stage.session.givenBack).toBe(1);
    expect(heard).toEqual([]);
  });

  // Rule changes-9.
  test('of a server that has not said what it offers to the caller is no stream for listeners', async () => {
    const stage = new Stage();
    stage.capabilities = null;
    const { listener, heard } = stage.listener(TOOLS);
    const refused = { code: 'upstream_unavailable' };
    await expect(stage.stream.join(listener)).rejects.toMatchObject(refused);
    expect(stage.session.givenBack).toBe(1);
    expect(heard).toEqual([]);
  });

  test('is tried again with growing pauses, and its listeners end after half a minute', async () => {
    const stage = new Stage();
    const { listener } = await stage.joined(TOOLS);
    await stage.pass(60_000);
    stage.failsWith = 'upstream_unavailable';
    stage.session.lose('upstream_unavailable');
    await stage.pass(29_000);
    expect(listener.over).toBe(false);
    expect(stage.attempts).toBeLessThan(10);
    await stage.pass(10_000);
    expect(listener.over).toBe(true);
    expect(stage.troubles).toEqual(['upstream_unavailable', 'upstream_unavailable']);
    const attempts = stage.attempts;
    await stage.pass(60_000);
    expect(stage.attempts).toBe(attempts);
  });

  test('reconnects when the server is back, and listeners that joined meanwhile are served', async () => {
    const stage = new Stage();
    await stage.joined(TOOLS);
    await stage.pass(60_000);
    stage.failsWith = 'upstream_unavailable';
    stage.session.lose('upstream_unavailable');
    await stage.pass(3_000);
    const late = stage.listener(TOOLS);
    const joining = stage.stream.join(late.listener);
    stage.failsWith = null;
    await stage.pass(10_000);
    await joining;
    expect(late.heard[0]).toBe(ACKNOWLEDGED_TOOLS);
    expect(stage.sessions).toHaveLength(2);
  });

  // Rule changes-5.
  test('is tried again while the server does not open it, and its listeners go on', async () => {
    const stage = new Stage();
    const { listener, heard } = await stage.joined(TOOLS);
    stage.isStreamDue = true;
    stage.session.lose('upstream_unavailable');
    await stage.pass(5_000);
    expect([listener.over, stage.session.givenBack]).toEqual([false, 1]);
    stage.isStreamDue = false;
    await stage.pass(10_000);
    expect([listener.over, heard]).toEqual([false, [ACKNOWLEDGED_TOOLS, 'tools/list_changed']]);
  });

  // Rule changes-6.
  test('is not opened again with credentials that are refused', async () => {
    const stage = new Stage();
    const { listener } = await stage.joined(TOOLS);
    stage.session.lose('unauthorized');
    await settle();
    expect(listener.over).toBe(true);
    expect(stage.attempts).toBe(1);
  });

  test('again and again is given up, however quickly it can be opened', async () => {
    const stage = new Stage();
    const { listener, heard } = await stage.joined(TOOLS);
    for (let second = 0; second < 120 && !listener.over; second += 1) {
      stage.session.lose();
      await stage.pass(1_000);
    }
    expect(listener.over).toBe(true);
    expect(stage.attempts).toBeLessThan(12);
    expect(heard.length).toBeLessThanOrEqual(3);
  });

  test('ends listeners that were promised what the server no longer gives', async () => {
    const stage = new Stage();
    const tools = await stage.joined(TOOLS);
    const lists = await stage.joined({ ...TOOLS, resourcesListChanged: true });
    stage.capabilities = { tools: { listChanged: true } };
    stage.session.lose();
    await stage.pass(100);
    expect([tools.listener.over, lists.listener.over]).toEqual([false, true]);
  });

  test('after everybody left is not missed', async () => {
    const stage = new Stage();
    const { listener } = await stage.joined(TOOLS);
    const { session } = stage;
    stage.stream.leave(listener);
    session.lose();
    await stage.pass(5_000);
    expect(stage.attempts).toBe(1);
    expect(session.givenBack).toBe(1);
    expect(stage.clock.pending).toBe(0);
  });
});

// Rule changes-5.
test('a server that cuts its stream again and again makes its clients read again only now and then', async () => {
  const stage = new Stage();
  const { heard } = await stage.joined(TOOLS);
  for (let second = 0; second < 59; second += 1) {
    stage.session.changes?.missed();
    await stage.pass(1_000);
  }
  expect(heard.filter((line) => line === 'tools/list_changed')).toHaveLength(2);
});

// Rule changes-5.
test('a clock that is set back delays no hint', async () => {
  const stage = new Stage();
  const { heard } = await stage.joined(TOOLS);
  stage.session.changes?.missed();
  stage.clock.setBy(-3_600_000);
  stage.session.changes?.missed();
  await stage.pass(30_000);
  expect(heard.filter((line) => line === 'tools/list_changed')).toHaveLength(2);
});

test('a clock that is set forward gives up no stream', async () => {
  const stage = new Stage();
  const { listener } = await stage.joined(TOOLS);
  stage.failsWith = 'upstream_unavailable';
  stage.session.lose('upstream_unavailable');
  stage.clock.setBy(3_600_000);
  await stage.pass(1_000);
  expect(listener.over).toBe(false);
});
