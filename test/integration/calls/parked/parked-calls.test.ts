/** What becomes of a call between its rounds: who may come back, when it ends, and what the server hears. */
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import type { TestGateway } from '../../../fixtures/gateways/gateway.ts';
import { advanceUntil, ManualClock } from '../../../fixtures/manual-clock.ts';
import {
  accept,
  callTool,
  modernBody,
  modernHeaders,
  send,
} from '../../../fixtures/clients/modern-client.ts';
import { rawRequest, sendRaw } from '../../../fixtures/clients/raw-http.ts';
import { eventStream, json, type Answer } from '../../../fixtures/servers/scripted-server.ts';
import { scriptedGateway } from '../../../fixtures/gateways/scripted-gateway.ts';
import {
  INVALID_STATE,
  answered,
  done,
  question,
  textOf,
} from '../../../fixtures/wire/asked-calls.ts';

/** A tool that asks these questions one by one, each when the one before is answered. */
function inTurn(...ids: string[]) {
  let next = () => {};
  const onCall: Answer = ({ body }, response) => {
    const stream = eventStream(response);
    const left = [...ids];
    next = () => {
      const id = left.shift();
      stream.send(id === undefined ? done(body.id) : question(id));
    };
    next();
  };
  const onResponse: Answer = (_received, response) => {
    response.writeHead(202).end();
    next();
  };
  return [onCall, { onResponse }] as const;
}

describe('a pointer', () => {
  // Rule retries-3.
  test('of a round before the last is refused, with whatever answers', async () => {
    const [onCall, options] = inTurn('one', 'two', 'three');
    const { url, gateway } = await scriptedGateway(onCall, {}, options);
    const first = await callTool(url, 'ask');
    const second = await callTool(url, 'ask', answered(first, 'one'));
    const third = await callTool(url, 'ask', answered(second, 'two'));
    for (const old of [answered(first, 'one'), answered(first, 'two'), answered(first)]) {
      expect((await callTool(url, 'ask', old)).response.error.data).toEqual(INVALID_STATE);
    }
    const refusals = gateway.log.named('pointer.refused').map(({ reason }) => reason);
    expect(refusals).toEqual(['consumed', 'consumed', 'consumed']);
    expect(textOf(await callTool(url, 'ask', answered(third, 'three')))).toBe('done');
  });

  // Rule time-and-room-1.
  test('is valid for as long as a round may wait, from when the round was last asked, within the time of the call', async () => {
    const clock = new ManualClock();
    const parking = { ttlMs: 60_000, callTtlMs: 100_000 };
    const [onCall, options] = inTurn('one');
    const { url, server } = await scriptedGateway(onCall, { clock, parking }, options);
    let asked = await advanceUntil(clock, callTool(url, 'ask'));
    clock.advance(50_000);
    asked = await callTool(url, 'ask', answered(asked));
    expect(Object.keys(asked.response.result.inputRequests)).toEqual(['one']);
    clock.advance(30_000);
    asked = await callTool(url, 'ask', answered(asked));
    expect(asked.response.result.resultType, '80 of 100 seconds are over').toBe('input_required');
    clock.advance(20_000);
    await server.saw(({ body }) => body?.method === 'notifications/cancelled');
    const late = await callTool(url, 'ask', answered(asked, 'one'));
    expect(late.response.error.data).toEqual(INVALID_STATE);
  });
});

describe('an outcome', () => {
  // Rule retries-2.
  test('is given again to the retry that brought it for as long as it is kept, and to no other', async () => {
    const clock = new ManualClock();
    const [onCall, options] = inTurn('one');
    const { url, server } = await scriptedGateway(onCall, { clock }, options);
    const asked = await advanceUntil(clock, callTool(url, 'ask'));
    const retry = answered(asked, 'one');
    expect(textOf(await callTool(url, 'ask', retry))).toBe('done');
    expect(textOf(await callTool(url, 'ask', retry))).toBe('done');
    const other = await callTool(url, 'ask', answered(asked, 'one', 'two'));
    expect(other.response.error.data).toEqual(INVALID_STATE);
    clock.advance(120_000);
    expect((await callTool(url, 'ask', retry)).response.error.data).toEqual(INVALID_STATE);
    const calls = server.methods().filter((method) => method === 'tools/call');
    expect(calls, 'nobody calls again').toHaveLength(1);
  });

  // Rule settled-1.
  test('that nobody came for is forgotten when its round is over', async () => {
    const clock = new ManualClock();
    let finish = () => {};
    const { url, gateway } = await scriptedGateway(
      ({ body }, response) => {
        const stream = eventStream(response);
        stream.send(question('one'));
        finish = () => stream.send(done(body.id));
      },
      { clock, parking: { ttlMs: 60_000 }, upstream: { pingIntervalMs: 3_600_000 } },
    );
    const asked = await advanceUntil(clock, callTool(url, 'ask'));
    finish();
    await gateway.log.saw('call.result_ready');
    clock.advance(60_000);
    expect(gateway.log.named('call.ended')).toMatchObject([{ end: 'expired' }]);
    const late = await callTool(url, 'ask', answered(asked, 'one'));
    expect(late.response.error.data).toEqual(INVALID_STATE);
  });
});

describe('a client that goes away', () => {
  // Rule retries-2.
  test('while another one waits for the same outcome ends nothing', async () => {
    let finish = () => {};
    const { url, server, gateway } = await scriptedGateway(
      ({ body }, response) => {
        const stream = eventStream(response);
        stream.send(question('one'));
        finish = () => stream.send(done(body.id));
      },
      { clock: hurriedClock(50) },
    );
    const asked = await callTool(url, 'ask');
    const retry = answered(asked, 'one');
    const leaving = new AbortController();
    const stays = callTool(url, 'ask', retry);
    await server.saw(({ body }) => body?.result !== undefined);
    const moves = gateway.log.named('call.moved').length;
    const leaves = callTool(url, 'ask', retry, { signal: leaving.signal }).catch(() => 'left');
    await gateway.log.saw('call.moved', moves + 1);
    leaving.abort();
    expect(await leaves).toBe('left');
    await gateway.log.saw('call.moved', moves + 2);
    finish();
    expect(textOf(await stays)).toBe('done');
    expect(server.methods()).not.toContain('notifications/cancelled');
  });

  // Rule responses-7.
  test('with its question has cancelled nothing: that request was over', async () => {
    const [onCall, options] = inTurn('one');
    const { url, server } = await scriptedGateway(onCall, {}, options);
    const params = { name: 'ask', arguments: {} };
    const body = JSON.stringify(modernBody('tools/call', params));
    const headers = [
      ['host', '127.0.0.1'],
      ['connection', 'close'],
      ...Object.entries(modernHeaders('tools/call', params)),
      ['content-length', String(Buffer.byteLength(body))],
    ] as [string, string][];
    const bytes = rawRequest('POST', '/mcp', headers, body);
    const { body: text } = await sendRaw(url, bytes, { untilClosed: true });
    const { requestState } = JSON.parse(text).result;
    const retry = { requestState, inputResponses: { one: accept() } };
    expect(textOf(await callTool(url, 'ask', retry))).toBe('done');
    expect(server.methods()).not.toContain('notifications/cancelled');
  });
});

describe('a call that nobody comes back for', () => {
  // Rule closing-1 (2025-11-25 cancellation, "Behavior Requirements"): The request is cancelled first. If the server
  // accepts that within 2 s, its questions get `{"action":"cancel"}`, -1 for sampling or -32603 for roots.
  // Rule cancellation-1.
  test('is cancelled first, then its questions are answered, then its stream is cut', async () => {
    const clock = new ManualClock();
    const gone = Promise.withResolvers<unknown>();
    const asks = [
      question('form'),
      { jsonrpc: '2.0', id: 'roots', method: 'roots/list' },
      {
        jsonrpc: '2.0',
        id: 'sample',
        method: 'sampling/createMessage',
        params: { messages: [], maxTokens: 1 },
      },
    ];
    let callId: unknown;
    const mayTake = Promise.withResolvers<void>();
    const { url, server, gateway } = await scriptedGateway(
      ({ body }, response) => {
        if (body.method === 'ping') return json(response, 200, done(body.id, {}));
        if (body.method === 'tools/list') return json(response, 200, done(body.id, { tools: [] }));
        callId = body.id;
        const stream = eventStream(response);
        for (const ask of asks) stream.send(ask);
        gone.resolve(once(response, 'close'));
      },
      { clock, parking: { ttlMs: 60_000 } },
      {
        onNotification: async ({ body }, response) => {
          if (body.method === 'notifications/cancelled') await mayTake.promise;
          response.writeHead(202).end();
        },
      },
    );
    await advanceUntil(clock, callTool(url, 'ask'));
    clock.advance(60_000);
    const { body } = await server.saw((one) => one.body?.method === 'notifications/cancelled');
    expect(body.params.requestId).toBe(callId);
    // Time enough for answers that wait for nothing: they are said over the same way.
    await send(url, 'tools/list');
    const answers = () =>
      server.received.filter((one) => one.body?.id !== undefined && !one.body.method);
    expect(answers()).toEqual([]);
    mayTake.resolve();
    for (const { id } of asks) await server.saw((one) => one.body?.id === id && !one.body.method);
    expect(answers().map((one) => one.body)).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ id: 'form', result: { action: 'cancel' } }),
        expect.objectContaining({ id: 'roots', error: expect.objectContaining({ code: -32603 }) }),
        expect.objectContaining({ id: 'sample', error: expect.objectContaining({ code: -1 }) }),
      ]),
    );
    expect(gateway.log.named('call.ended')).toEqual([]);
    clock.advance(2_000);
    await gone.promise;
    expect(gateway.log.named('call.ended')).toMatchObject([{ end: 'expired' }]);
  });
});

describe('the session of a call that was cancelled', () => {
  const sessionsOf = ({ log }: TestGateway) => log.named('session.opened').length;

  async function cancelled(onCancel: (response: Parameters<Answer>[1], id: unknown) => void) {
    const clock = new ManualClock();
    let cancel = () => {};
    const { url, server, gateway } = await scriptedGateway(
      ({ body }, response) => {
        if (body.params.name === 'plain') return json(response, 200, done(body.id));
        cancel = () => onCancel(response, body.id);
      },
      { clock, sessions: { scope: 'shared' } },
    );
    const leaving = new AbortController();
    const left = callTool(url, 'hang', {}, { signal: leaving.signal }).catch(() => 'left');
    await server.saw(({ body }) => body?.params?.name === 'hang');
    leaving.abort();
    await left;
    await server.saw(({ body }) => body?.method === 'notifications/cancelled');
    return { clock, url, gateway, cancel: () => cancel() };
  }

  // Rule closing-3.
  test('is not used again when the server says nothing more', async () => {
    const { clock, url, gateway } = await cancelled(() => {});
    clock.advance(2_000);
    await gateway.log.saw('call.ended');
    expect(textOf(await callTool(url, 'plain'))).toBe('done');
    expect(sessionsOf(gateway)).toBe(2);
  });

  // Rule closing-3.
  test('is used again when the server has ended the call', async () => {
    const { url, gateway, cancel } = await cancelled((response, id) => {
      json(response, 200, { jsonrpc: '2.0', id, error: { code: -32000, message: 'cancelled' } });
    });
    cancel();
    await gateway.log.saw('call.ended');
    expect(textOf(await callTool(url, 'plain'))).toBe('done');
    expect(sessionsOf(gateway)).toBe(1);
  });
});

// Rule streams-3: A retry waits for a stream that is being resumed. Its answers go out when the stream is back.
test('a retry that comes while the stream is being resumed waits for it, and its answers are not risked', async () => {
  let callId: unknown;
  let cut = () => {};
  const resuming = Promise.withResolvers<ReturnType<typeof eventStream>>();
  const mayResume = Promise.withResolvers<void>();
  const asksAgain = Promise.withResolvers<void>();
  const { url, server, gateway } = await scriptedGateway(
    ({ body }, response) => {
      callId = body.id;
      const stream = eventStream(response);
      stream.raw('retry: 100\n\n');
      stream.send(question('one'), 'event-1');
      cut = () => stream.end();
    },
    {},
    {
      onGet: async ({ headers }, response) => {
        if (headers['last-event-id'] === undefined) return void eventStream(response);
        asksAgain.resolve();
        await mayResume.promise;
        resuming.resolve(eventStream(response));
      },
      onResponse: async (_received, response) => {
        response.writeHead(202).end();
        (await resuming.promise).send(done(callId), 'event-2');
      },
    },
  );
  const asked = await callTool(url, 'ask');
  cut();
  await asksAgain.promise;
  const moves = gateway.log.named('call.moved').length;
  const retried = callTool(url, 'ask', answered(asked, 'one'));
  await gateway.log.saw('call.moved', moves + 1);
  expect(server.methods()).not.toContain('response');
  mayResume.resolve();
  expect(textOf(await retried)).toBe('done');
  expect(server.methods().filter((method) => method === 'response')).toHaveLength(1);
});

// Rule caching-3.
test('a resource that was read after a question must not be cached, whatever the operator says of others', async () => {
  const contents = [{ uri: 'test://one', text: 'for Ada' }];
  let finish = () => {};
  const { url } = await scriptedGateway(
    ({ body }, response) => {
      const stream = eventStream(response);
      if (body.params.uri === 'test://plain') return stream.send(done(body.id, { contents }));
      stream.send(question('one'));
      finish = () => stream.send(done(body.id, { contents }));
    },
    { caching: { resourceTtlMs: 60_000, scope: 'public' } },
    { onResponse: (_received, response) => (finish(), void response.writeHead(202).end()) },
  );
  const plain = await send(url, 'resources/read', { uri: 'test://plain' });
  expect(plain.response.result).toMatchObject({ ttlMs: 60_000, cacheScope: 'public' });
  const params = { uri: 'test://one' };
  const asked = await send(url, 'resources/read', params);
  const read = await send(url, 'resources/read', { ...params, ...answered(asked, 'one') });
  expect(read.response.result).toMatchObject({ ttlMs: 0, cacheScope: 'private', contents });
});
