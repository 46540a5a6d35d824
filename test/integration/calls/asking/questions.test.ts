/** Questions on the wire: whose they are, which of them a client sees, and how its answers go back. */
import { describe, expect, test } from 'vitest';
import { ManualClock } from '../../../fixtures/manual-clock.ts';
import { accept, callTool, send, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import { eventStream } from '../../../fixtures/servers/scripted-server.ts';
import { scriptedGateway } from '../../../fixtures/gateways/scripted-gateway.ts';

async function start(...ground: Parameters<typeof scriptedGateway>) {
  const { server, ...rest } = await scriptedGateway(...ground);
  const answerTo = (id: string) => server.saw(({ body }) => body?.id === id && !body.method);
  return { server, ...rest, answerTo };
}

const FORM = { type: 'object', properties: { name: { type: 'string' } } };
const question = (id: string, requestedSchema: object = FORM) => ({
  jsonrpc: '2.0',
  id,
  method: 'elicitation/create',
  params: { message: `${id}?`, requestedSchema },
});
const withdrawal = (requestId: unknown) => ({
  jsonrpc: '2.0',
  method: 'notifications/cancelled',
  params: { requestId },
});
const done = (id: unknown, text = 'done') => ({
  jsonrpc: '2.0',
  id,
  result: { content: [{ type: 'text', text }] },
});
const textOf = ({ response }: Exchanged): unknown => response.result?.content?.[0].text;
const keysOf = ({ response }: Exchanged) => Object.keys(response.result?.inputRequests ?? {});

describe('a question that no client can be asked', () => {
  // Rule questions-4 (MRTR, "Supported Requests"): Only `tools/call`, `prompts/get` and `resources/read` can ask.
  // Questions of other requests are refused, and the request goes on.
  test('on the stream of a request that may not ask is refused to the server, and the request goes on', async () => {
    const { url, answerTo } = await start(async ({ body }, response) => {
      const stream = eventStream(response);
      stream.send(question('form'));
      const params = { messages: [], maxTokens: 1 };
      stream.send({ jsonrpc: '2.0', id: 'sample', method: 'sampling/createMessage', params });
      stream.send({ jsonrpc: '2.0', id: 'roots', method: 'roots/list' });
      await Promise.all(['form', 'sample', 'roots'].map(answerTo));
      stream.send({ jsonrpc: '2.0', id: body.id, result: { tools: [] } });
      stream.end();
    });
    const listed = await send(url, 'tools/list');
    expect(listed.response.result).toMatchObject({ resultType: 'complete', tools: [] });
    expect((await answerTo('form')).body.error.code).toBe(-32602);
    expect((await answerTo('sample')).body.error.code).toBe(-32602);
    expect((await answerTo('roots')).body.result).toEqual({ roots: [] });
  });

  // Rule questions-5: A question of a call that has ended is declined.
  test('on the stream of a call that is over is turned down, and the call that runs never sees it', async () => {
    let first: ReturnType<typeof eventStream> | undefined;
    const { url, answerTo } = await start(
      async ({ body }, response) => {
        const stream = eventStream(response);
        if (first === undefined) {
          first = stream;
          return stream.send(done(body.id, 'first'));
        }
        first.send(question('late'));
        const params = { messages: [], maxTokens: 1 };
        first.send({ jsonrpc: '2.0', id: 'sample', method: 'sampling/createMessage', params });
        await Promise.all(['late', 'sample'].map(answerTo));
        stream.send(done(body.id, 'second'));
      },
      // A clock that stands still, so that the first stream is not cut in the meantime.
      { sessions: { scope: 'shared' }, clock: new ManualClock() },
    );
    expect(textOf(await callTool(url, 'one'))).toBe('first');
    expect(textOf(await callTool(url, 'two'))).toBe('second');
    expect((await answerTo('late')).body.result).toEqual({ action: 'cancel' });
    expect((await answerTo('sample')).body.error.code).toBe(-1);
  });

  // Rule questions-6.
  test('because its server could not be answered, having no session id, ends the call at once with the cause', async () => {
    const { url, gateway, server } = await start(
      (_received, response) => eventStream(response).send(question('lost')),
      {},
      { sessionId: null },
    );
    const { response } = await callTool(url, 'ask');
    expect(response.error).toMatchObject({
      code: -32603,
      message: expect.stringContaining('issued no session id'),
      data: { reason: 'call_not_answerable', cause: 'no_session_id' },
    });
    const call = await server.saw(({ body }) => body?.method === 'tools/call');
    const cancelled = await server.saw(({ body }) => body?.method === 'notifications/cancelled');
    expect(cancelled.body.params.requestId).toBe(call.body.id);
    expect(server.methods()).not.toContain('response');
    const [refused] = gateway.log.named('call.question_refused');
    expect(refused).toMatchObject({ reason: 'the server gave no session id' });
  });

  // Rule forms-6.
  test('because no form can show it is refused to the server, and the tool decides', async () => {
    const { url, gateway, answerTo } = await start(async ({ body }, response) => {
      const stream = eventStream(response);
      stream.send(question('nested', { type: 'object', properties: { a: { type: 'object' } } }));
      await answerTo('nested');
      stream.send(done(body.id, 'went on'));
    });
    expect(textOf(await callTool(url, 'ask'))).toBe('went on');
    const { error } = (await answerTo('nested')).body;
    expect([error.code, error.message]).toEqual([-32603, expect.stringContaining('"a"')]);
    const [refused] = gateway.log.named('call.question_refused');
    expect(refused).toMatchObject({ reason: 'schema_not_representable' });
  });

  // Rule settled-1.
  test('because the call is over before it could be shown is closed out', async () => {
    const { url, answerTo } = await start(({ body }, response) => {
      const stream = eventStream(response);
      stream.send(question('late'));
      stream.send(done(body.id, 'changed my mind'));
    });
    expect(textOf(await callTool(url, 'ask'))).toBe('changed my mind');
    expect((await answerTo('late')).body.result).toEqual({ action: 'cancel' });
  });
});

describe('questions that come one after the other', () => {
  /** A server that asks when it is told to, and a clock that stands still meanwhile. */
  async function paced() {
    const clock = new ManualClock();
    const called = Promise.withResolvers<ReturnType<typeof eventStream>>();
    const { url, gateway } = await start(
      (_received, response) => called.resolve(eventStream(response)),
      { clock },
    );
    const asked = callTool(url, 'ask');
    const stream = await called.promise;
    let count = 0;
    return {
      asked,
      clock,
      parked: () => gateway.log.named('call.parked').length === 1,
      /** Resolves when the gateway has the question. */
      ask: async () => {
        count += 1;
        stream.send(question(`q${count}`));
        await gateway.log.saw('call.moved', count);
      },
    };
  }

  // Rule shown-3: Questions within 1 ms of each other are shown together, in order. If a tool asks several in a row,
  // later calls wait 30 ms for each, and 150 ms at most.
  test('within 1 ms of each other are shown together', async () => {
    const { asked, ask, clock, parked } = await paced();
    await ask();
    clock.advance(0.5);
    await ask();
    clock.advance(0.5);
    expect(parked()).toBe(false);
    clock.advance(1);
    expect(keysOf(await asked)).toEqual(['q1', 'q2']);
  });

  // Rule shown-4: At most 16 questions are shown together, and 64 more wait for the next round. Any further one gets
  // -32603.
  test('are shown at once when there are as many as a client is shown together', async () => {
    const { asked, ask, clock, parked } = await paced();
    for (let time = 1; time <= 16; time += 1) {
      expect(parked()).toBe(false);
      await ask();
    }
    clock.advance(0);
    expect(keysOf(await asked)).toHaveLength(16);
  });

  // Rule shown-4.
  test('are shown in the next round if there are more than a client is shown together', async () => {
    const ids = Array.from({ length: 20 }, (_, number) => `q${number}`);
    let finish = () => {};
    const { url, server, gateway } = await start(({ body }, response) => {
      const stream = eventStream(response);
      for (const id of ids) stream.send(question(id));
      finish = () => stream.send(done(body.id));
    });
    const answersTo = (asked: Exchanged) => ({
      requestState: asked.response.result.requestState,
      inputResponses: Object.fromEntries(keysOf(asked).map((key) => [key, accept({ name: key })])),
    });
    const first = await callTool(url, 'ask');
    expect(keysOf(first)).toEqual(ids.slice(0, 16));
    const second = await callTool(url, 'ask', answersTo(first));
    expect(keysOf(second)).toEqual(ids.slice(16));
    const retried = callTool(url, 'ask', answersTo(second));
    await server.saw(({ body }) => body?.id === 'q19');
    finish();
    expect(textOf(await retried)).toBe('done');
    const answers = server.received.filter(({ body }) => ids.includes(body?.id));
    expect(answers.map(({ body }) => body.result)).toEqual(ids.map((id) => accept({ name: id })));
    expect(gateway.log.named('call.question_refused')).toEqual([]);
  });
});

describe('a question that the server takes back', () => {
  // Rule shown-8 (2025-11-25 cancellation, "Behavior Requirements"): A question that the server withdraws is no
  // longer shown, and its answer is dropped.
  test('is no longer answered, and those beside it are', async () => {
    let stream: ReturnType<typeof eventStream> | undefined;
    let finish = () => {};
    const { url, server, gateway, answerTo } = await start(({ body }, response) => {
      stream = eventStream(response);
      for (const id of ['one', 'two']) stream.send(question(id));
      finish = () => stream?.send(done(body.id));
    });
    const asked = await callTool(url, 'ask');
    expect(keysOf(asked)).toEqual(['one', 'two']);
    const moves = gateway.log.named('call.moved').length;
    stream?.send(withdrawal('one'));
    await gateway.log.saw('call.moved', moves + 1);
    const { requestState } = asked.response.result;
    const inputResponses = { one: accept({ name: 'a' }), two: accept({ name: 'b' }) };
    const retried = callTool(url, 'ask', { requestState, inputResponses });
    expect((await answerTo('two')).body.result).toEqual(accept({ name: 'b' }));
    finish();
    expect(textOf(await retried)).toBe('done');
    expect(server.received.filter(({ body }) => body?.id === 'one')).toEqual([]);
  });

  // Rule shown-8.
  test('as the last one leaves the retry waiting for the outcome, whatever it answers', async () => {
    let stream: ReturnType<typeof eventStream> | undefined;
    let finish = () => {};
    const { url, server, gateway } = await start(({ body }, response) => {
      stream = eventStream(response);
      stream.send(question('one'));
      finish = () => stream?.send(done(body.id, 'went on'));
    });
    const asked = await callTool(url, 'ask');
    const moves = gateway.log.named('call.moved').length;
    stream?.send(withdrawal('one'));
    await gateway.log.saw('call.moved', moves + 1);
    const { requestState } = asked.response.result;
    const inputResponses = { one: accept({ name: 'a' }) };
    const retried = callTool(url, 'ask', { requestState, inputResponses });
    await gateway.log.saw('call.moved', moves + 2);
    finish();
    expect(textOf(await retried)).toBe('went on');
    expect(server.methods()).not.toContain('response');
  });

  // Rule shown-8.
  test('but never asked changes nothing', async () => {
    const { url } = await start(({ body }, response) => {
      const stream = eventStream(response);
      for (const id of ['never', 'one ', body.id, null]) stream.send(withdrawal(id));
      stream.send(question('one'));
    });
    expect(keysOf(await callTool(url, 'ask'))).toEqual(['one']);
  });
});

describe('answers', () => {
  // Rule answers-8 (2025-11-25 transports, "Sending Messages to the Server" 3): Answers go to the server one by one,
  // in the order of the questions, with the credentials of their retry.
  // Rule pointer-4.
  test('go upstream one after the other, in the order of asking, with the credentials of the retry', async () => {
    let [open, most] = [0, 0];
    let finish = () => {};
    const ids = ['third', 'first', 'second'];
    const { url, server } = await start(
      ({ body }, response) => {
        const stream = eventStream(response);
        for (const id of ids) stream.send(question(id));
        finish = () => stream.send(done(body.id));
      },
      { identity: { source: 'header', header: 'x-user' } },
      {
        onResponse: ({ body }, response) => {
          open += 1;
          most = Math.max(most, open);
          // Long enough for the next one to come, if it would.
          setTimeout(() => {
            open -= 1;
            response.writeHead(202).end();
            if (body.id === ids.at(-1)) finish();
          }, 20);
        },
      },
    );
    const as = (token: string) => ({ headers: { 'x-user': 'ada', authorization: token } });
    const asked = await callTool(url, 'ask', {}, as('Bearer first'));
    const inputResponses = Object.fromEntries(
      [...ids].sort().map((id) => [id, accept({ name: id })]),
    );
    const { requestState } = asked.response.result;
    const retry = { requestState, inputResponses };
    expect(textOf(await callTool(url, 'ask', retry, as('Bearer refreshed')))).toBe('done');
    const answers = server.received.filter(({ body }) => body?.result !== undefined);
    expect(answers.map(({ body }) => body)).toEqual(
      ids.map((id) => ({ jsonrpc: '2.0', id, result: accept({ name: id }) })),
    );
    expect(answers.map(({ headers }) => headers.authorization)).toEqual(
      ids.map(() => 'Bearer refreshed'),
    );
    expect(most).toBe(1);
  });
});

// Rule shown-5.
test('the operator’s names are the keys of a tool’s questions, and of no other tool’s', async () => {
  const questions = { keyNames: { ask: ['who', 'why'] } };
  const { url } = await start(
    (_received, response) => {
      const stream = eventStream(response);
      for (const id of ['one', 'two', 'three']) stream.send(question(id));
    },
    { questions },
  );
  expect(keysOf(await callTool(url, 'ask'))).toEqual(['who', 'why', 'three']);
  expect(keysOf(await callTool(url, 'other'))).toEqual(['one', 'two', 'three']);
});

// Rule shown-6 (2025-11-25 transports, "Session Management"): A request id that holds the session id is never shown.
test('a request id that holds the session id is no key, and reaches no client', async () => {
  const { url } = await start(
    (_received, response) => eventStream(response).send(question('session-1-0')),
    {},
    { sessionId: 'session-1' },
  );
  const asked = await callTool(url, 'ask');
  expect(keysOf(asked)).toEqual(['elicitation-1']);
});
