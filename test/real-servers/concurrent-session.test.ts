/** One session with a published server, and several calls in it at once: whose question it is. */
import { describe, expect, test } from 'vitest';
import { serverRequestId } from '../../src/protocol/ids.ts';
import type { JsonObject } from '../../src/protocol/json.ts';
import type { JsonRpcReply } from '../../src/protocol/json-rpc.ts';
import { EMPTY_PROFILE } from '../../src/protocol/translate/client-profile.ts';
import type { Session } from '../../src/upstream/session/session.ts';
import { ManualClock, turnsUntil } from '../fixtures/manual-clock.ts';
import { startEverything, type ServerProcess } from '../fixtures/processes.ts';
import { startFormExample } from '../fixtures/real-servers/node-server.ts';
import { startPythonServer } from '../fixtures/real-servers/python/python-server.ts';
import { closeAfterTest, Heard, upstreamOf } from '../fixtures/servers/upstream-testbed.ts';

const CLIENT = { ...EMPTY_PROFILE, elicitationForm: true, sampling: true, roots: true };
const ROOTS = { roots: [{ uri: 'file:///home/ada' }] };

async function sessionWith(start: () => Promise<ServerProcess>, path: string) {
  const server = await start();
  const clock = new ManualClock();
  const upstream = upstreamOf(
    { url: server.origin + path, stop: () => server.stop() },
    { transport: path === '/mcp' ? 'streamable-http' : 'http-sse' },
    clock,
  );
  const session = await upstream.openSession({ profile: CLIENT, clientInfo: null, headers: {} });
  closeAfterTest(() => session.close());
  return { clock, session };
}

async function callTool(session: Session, name: string, args: JsonObject = {}) {
  const heard = new Heard();
  const params = { name, arguments: args };
  const exchange = session.call('tools/call', () => params, heard, {});
  await exchange.accepted;
  const questions = (method: string) =>
    heard.events.filter(([event, , what]) => event === 'asked' && what === method);
  return {
    heard,
    exchange,
    questions,
    /** The first question of this method. */
    asked: async (method: string) => {
      await turnsUntil(() => questions(method).length > 0);
      return serverRequestId(questions(method)[0]?.[1] as number);
    },
    answer: (id: unknown, result: JsonObject) =>
      exchange.respond(serverRequestId(id as number), { result }, {}),
    text: async () => {
      const [, reply] = (await heard.until('replied')) as ['replied', JsonRpcReply];
      return JSON.stringify('result' in reply ? reply.result['content'] : reply.error);
    },
  };
}

type RunningCall = Awaited<ReturnType<typeof callTool>>;

const form = (content: JsonObject) => ({ action: 'accept', content });
const sample = (text: string) => ({
  role: 'assistant',
  model: 'm',
  content: { type: 'text', text },
});
const hasHeard = ({ heard }: RunningCall, event: string) =>
  heard.events.some(([name]) => name === event);

describe('server-everything over Streamable HTTP', () => {
  // Rule questions-1.
  test('asks each of two calls on its own stream', async () => {
    const { session } = await sessionWith(() => startEverything('streamableHttp'), '/mcp');
    const one = await callTool(session, 'trigger-elicitation-request');
    const other = await callTool(session, 'trigger-elicitation-request');
    const [first, second] = [
      await one.asked('elicitation/create'),
      await other.asked('elicitation/create'),
    ];
    await other.answer(second, form({ name: 'Grace' }));
    await one.answer(first, form({ name: 'Ada' }));
    expect(await one.text()).toContain('Ada');
    expect(await other.text()).toContain('Grace');
    expect([session.questions.askingStyle, session.questions.isHolding]).toEqual([
      'on-stream',
      false,
    ]);
  });
});

describe('the elicitation form example of the v1 SDK, which asks beside the streams', () => {
  // Rule concurrent-1.
  test('one of two calls is asked when the other has ended', async () => {
    const { session } = await sessionWith(startFormExample, '/mcp');
    const asking = await callTool(session, 'create_event');
    const step = await asking.asked('elicitation/create');
    expect([session.questions.askingStyle, session.questions.isHolding]).toEqual([
      'uncorrelated',
      false,
    ]);
    const other = await callTool(session, 'register_user');
    // The first call waits for its answer, and could ask more until a ping shows that its turn is over: the question of the second one
    // is held if it comes before the reply to that, and is asked at once if it comes after it.
    const early = () => other.questions('elicitation/create');
    await turnsUntil(() => session.questions.isHolding || early().length > 0);
    if (session.questions.isHolding) expect(early()).toEqual([]);
    await asking.answer(step, { action: 'decline' });
    expect(await asking.text()).toContain('Event creation cancelled');
    const user = await other.asked('elicitation/create');
    await other.answer(
      user,
      form({ username: 'ada', email: 'ada@example.org', password: 'correct horse' }),
    );
    expect(await other.text()).toContain('ada@example.org');
    expect(asking.questions('elicitation/create')).toHaveLength(1);
  });

  // Rule concurrent-2.
  test('two calls that ask at once are both declined after 30 s, and know why', async () => {
    const { clock, session } = await sessionWith(startFormExample, '/mcp');
    const calls = [
      await callTool(session, 'create_event'),
      await callTool(session, 'create_event'),
      await callTool(session, 'create_event'),
    ];
    const [first] = calls;
    // The first question can come before the second call begins.
    const early = () => first?.questions('elicitation/create') ?? [];
    // Each question that is held has a timer.
    await turnsUntil(() => clock.pending + early().length === calls.length);
    for (const [, id] of early()) await first?.answer(id, { action: 'cancel' });
    clock.advance(30_000);
    for (const call of calls) expect(await call.text()).toContain('Event creation cancelled');
    expect(calls.filter((call) => hasHeard(call, 'unanswerable')).length).toBeGreaterThan(1);
  });

  // Rule concurrent-5.
  test('goes on in its session after a call was cancelled', async () => {
    const { clock, session } = await sessionWith(startFormExample, '/mcp');
    const left = await callTool(session, 'create_event');
    const step = await left.asked('elicitation/create');
    await left.exchange.cancel('the client left', {});
    await left.answer(step, { action: 'cancel' });
    left.exchange.abandon();
    expect(session.questions.isCertain).toBe(true);
    clock.advance(15_000);
    const next = await callTool(session, 'create_event');
    const asked = await next.asked('elicitation/create');
    await next.answer(asked, { action: 'decline' });
    expect(await next.text()).toContain('Event creation cancelled');
  });
});

describe('a server of the Python SDK over Streamable HTTP', { tags: ['python'] }, () => {
  const start = () => startPythonServer('streamable-http');

  // Rule questions-1.
  test('asks each of two calls on its own stream, and one client for the roots of both', async () => {
    const { session } = await sessionWith(start, '/mcp');
    const trips = [await callTool(session, 'book'), await callTool(session, 'book')];
    const questions = [
      await trips[0]?.asked('elicitation/create'),
      await trips[1]?.asked('elicitation/create'),
    ];
    const lists = [await callTool(session, 'roots'), await callTool(session, 'roots')];
    const everyone = [...trips, ...lists];
    const asked = () => everyone.flatMap((call) => call.questions('roots/list').map(() => call));
    await turnsUntil(() => asked().length > 0);
    // The server has taken what came before these, and has sent what it sends for that.
    for (const a of [1, 2]) await (await callTool(session, 'add', { a, b: 1 })).text();
    expect(asked()).toHaveLength(1);
    const [carrier] = asked();
    await carrier?.answer(await carrier.asked('roots/list'), ROOTS);
    for (const list of lists) expect(await list.text()).toContain('file:///home/ada');
    await trips[1]?.answer(questions[1], form({ city: 'Lima' }));
    await trips[0]?.answer(questions[0], form({ city: 'Oslo' }));
    expect(await trips[0]?.text()).toContain('nights in Oslo');
    expect(await trips[1]?.text()).toContain('nights in Lima');
    expect([session.questions.askingStyle, session.questions.isHolding]).toEqual([
      'on-stream',
      false,
    ]);
  });

  // Rule concurrent-1.
  test('a question beside the streams is asked while a call waits that asked on its own', async () => {
    const { session } = await sessionWith(start, '/mcp');
    const trip = await callTool(session, 'book');
    const where = await trip.asked('elicitation/create');
    const haiku = await callTool(session, 'haiku_apart', { about: 'frost' });
    await haiku.answer(await haiku.asked('sampling/createMessage'), sample('white grass'));
    expect(await haiku.text()).toContain('white grass');
    expect(hasHeard(trip, 'replied')).toBe(false);
    await trip.answer(where, form({ city: 'Oslo' }));
    expect(await trip.text()).toContain('nights in Oslo');
    expect(trip.questions('sampling/createMessage')).toEqual([]);
  });
});

describe('over HTTP+SSE', () => {
  // Rule concurrent-1.
  test('server-everything asks the call that is left', async () => {
    const { session } = await sessionWith(() => startEverything('sse'), '/sse');
    expect(session.questions.askingStyle).toBe('uncorrelated');
    const slow = await callTool(session, 'trigger-long-running-operation', {
      duration: 0.5,
      steps: 1,
    });
    const asking = await callTool(session, 'trigger-elicitation-request');
    await turnsUntil(() => session.questions.isHolding);
    expect(asking.questions('elicitation/create')).toEqual([]);
    const question = await asking.asked('elicitation/create');
    expect(hasHeard(slow, 'replied')).toBe(true);
    expect(slow.questions('elicitation/create')).toEqual([]);
    await asking.answer(question, form({ name: 'Ada' }));
    expect(await asking.text()).toContain('Ada');
  });

  // Rule concurrent-1.
  test('so does a server of the Python SDK', { tags: ['python'] }, async () => {
    const { session } = await sessionWith(() => startPythonServer('sse'), '/sse');
    const trip = await callTool(session, 'book');
    const where = await trip.asked('elicitation/create');
    const haiku = await callTool(session, 'haiku_apart', { about: 'frost' });
    const early = () => haiku.questions('sampling/createMessage');
    // It is asked at once if it comes after the reply to the ping that shows that the first call asks no more.
    await turnsUntil(() => session.questions.isHolding || early().length > 0);
    await trip.answer(where, form({ city: 'Oslo' }));
    expect(await trip.text()).toContain('nights in Oslo');
    await haiku.answer(await haiku.asked('sampling/createMessage'), sample('white grass'));
    expect(await haiku.text()).toContain('white grass');
    expect(trip.questions('sampling/createMessage')).toEqual([]);
  });
});
