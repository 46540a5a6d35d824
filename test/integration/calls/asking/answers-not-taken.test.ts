/** Answers that the server does not take at once: nothing is used up, and nothing is answered twice. */
import { describe, expect, test } from 'vitest';
import { gatewayBefore } from '../../../fixtures/gateways/test-gateway.ts';
import { accept, callTool, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import {
  eventStream,
  legacyServer,
  type Answer,
} from '../../../fixtures/servers/scripted-server.ts';

const taken: Answer = (_received, response) => void response.writeHead(202).end();
const cut: Answer = (_received, response) => void response.destroy();

/**
 * A tool that asks two questions and ends when it has both answers.
 * @param script what becomes of the answers that are POSTed, one after the other; later ones are taken
 */
async function asking(...script: Answer[]) {
  const waiting = new Set(['one', 'two']);
  let end = () => {};
  const server = await legacyServer(
    ({ body }, response) => {
      const stream = eventStream(response);
      for (const id of waiting) {
        const requestedSchema = { type: 'object', properties: {} };
        const params = { message: `${id}?`, requestedSchema };
        stream.send({ jsonrpc: '2.0', id, method: 'elicitation/create', params });
      }
      const content = [{ type: 'text', text: 'done' }];
      end = () => stream.send({ jsonrpc: '2.0', id: body.id, result: { content } });
    },
    {
      onResponse: (received, response, request) => {
        const answer = script.shift() ?? taken;
        if (answer === taken) waiting.delete(received.body.id);
        void answer(received, response, request);
        if (waiting.size === 0) end();
      },
    },
  );
  const { gateway } = await gatewayBefore(server, {
    transport: 'streamable-http',
    identity: { source: 'header', header: 'x-user' },
  });
  const as = (token: string) => ({
    headers: { 'x-user': 'ada', authorization: `Bearer ${token}` },
  });
  const asked = await callTool(gateway.url, 'ask', {}, as('first'));
  const { requestState } = asked.response.result;
  const inputResponses = { one: accept(), two: accept() };
  return {
    gateway,
    retry: (token = 'first', answers: object = inputResponses): Promise<Exchanged> =>
      callTool(gateway.url, 'ask', { requestState, inputResponses: answers }, as(token)),
    /** The answers as they came, with the tokens that they carried. */
    answers: () =>
      server.received
        .filter(({ body }) => body?.result !== undefined)
        .map(({ body, headers }) => [body.id, headers.authorization?.replace('Bearer ', '')]),
    calls: () => server.methods().filter((method) => method === 'tools/call').length,
  };
}

const refused =
  (status: number): Answer =>
  (_received, response) =>
    void response.writeHead(status, { 'www-authenticate': 'Bearer scope="more"' }).end();
const textOf = ({ response }: Exchanged): unknown => response.result?.content?.[0].text;

describe('credentials that the server refuses', () => {
  // Rule answers-10 (2025-11-25 authorization, "Token Handling"): If the server refuses the credentials, the client
  // gets 401 or 403 with the challenge, and can retry.
  // Rule pointer-4.
  test.each([401, 403])(
    'with %i are told of, and the same pointer serves with better ones',
    async (status) => {
      const { retry, answers, calls } = await asking(refused(status));
      const told = await retry('expired');
      expect(told.status).toBe(status);
      expect(told.headers.get('www-authenticate')).toBe('Bearer scope="more"');
      expect(told.response.error).toMatchObject({ code: -32603, data: { reason: 'unauthorized' } });
      expect(textOf(await retry('renewed'))).toBe('done');
      expect(answers()).toEqual([
        ['one', 'expired'],
        ['one', 'renewed'],
        ['two', 'renewed'],
      ]);
      expect(calls()).toBe(1);
    },
  );
});

describe('a server that is busy', () => {
  // Rule answers-12: If the server refuses an answer with 429 or 503, the client gets its `Retry-After` as
  // `data.retryAfterMs`.
  test.each([429, 503])('with %i is told as retryable, with the time to wait', async (status) => {
    const busy: Answer = (_received, response) =>
      void response.writeHead(status, { 'retry-after': '3' }).end();
    const { gateway, retry, answers } = await asking(taken, busy);
    expect((await retry()).response.error.data).toEqual({
      reason: 'upstream_unavailable',
      mayHaveActed: 'yes',
      retryable: true,
      retryAfterMs: 3_000,
      help: 'mrtr-gateway/docs/operate/errors.md#upstream_unavailable',
    });
    expect(gateway.log.named('call.answer_refused')).toMatchObject([
      { cause: 'unreachable', problem: `the server is busy: HTTP ${status}` },
    ]);
    expect(textOf(await retry())).toBe('done');
    expect(answers().map(([id]) => id)).toEqual(['one', 'two', 'two']);
  });

  // Rule answers-12.
  test('and then does not say how long is told without a time', async () => {
    const busy: Answer = (_received, response) =>
      void response.writeHead(503, { 'retry-after': '3' }).end();
    const { retry } = await asking(busy, refused(503));
    await retry();
    expect((await retry()).response.error.data).not.toHaveProperty('retryAfterMs');
  });
});

describe('a connection that breaks under an answer', () => {
  // Rule answers-9: An answer whose connection breaks is sent once more. Then the client gets -32603 with
  // `upstream_unavailable` and `data.retryable`.
  test('is made again at once for the same answer', async () => {
    const { retry, answers, calls } = await asking(cut);
    expect(textOf(await retry())).toBe('done');
    expect(answers().map(([id]) => id)).toEqual(['one', 'one', 'two']);
    expect(calls()).toBe(1);
  });

  // Rule answers-9.
  test('twice is told as retryable, and the same pointer serves later', async () => {
    const { retry, answers, calls } = await asking(cut, cut);
    const told = await retry();
    expect(told.status).toBe(200);
    expect(told.response.error).toMatchObject({
      code: -32603,
      data: { reason: 'upstream_unavailable', retryable: true },
    });
    expect(textOf(await retry())).toBe('done');
    expect(answers().map(([id]) => id)).toEqual(['one', 'one', 'one', 'two']);
    expect(calls()).toBe(1);
  });

  // Rule answers-9.
  test('does not make an answer count twice that the server has had before', async () => {
    const { retry, answers } = await asking(taken, cut, cut);
    expect((await retry()).response.error.data.retryable).toBe(true);
    expect(textOf(await retry())).toBe('done');
    expect(answers().map(([id]) => id)).toEqual(['one', 'two', 'two', 'two']);
  });

  // Rule answers-9.
  test('leaves the round open for other answers than those that did not get through', async () => {
    const { retry, answers } = await asking(cut, cut);
    await retry();
    const changed = { one: { action: 'decline' }, two: { action: 'decline' } };
    expect(textOf(await retry('first', changed))).toBe('done');
    expect(answers()).toHaveLength(4);
  });
});

// Rule shown-8.
test('a question that is taken back while the answer to another is on its way is not answered', async () => {
  const answered: string[] = [];
  let send = (_message: object): void => {};
  let end = () => {};
  const server = await legacyServer(
    ({ body }, response) => {
      const stream = eventStream(response);
      send = (message) => stream.send({ jsonrpc: '2.0', ...message });
      end = () => send({ id: body.id, result: { content: [] } });
      for (const id of ['one', 'two', 'three']) {
        const params = { message: `${id}?`, requestedSchema: { type: 'object', properties: {} } };
        send({ id, method: 'elicitation/create', params });
      }
    },
    {
      onResponse: async ({ body }, response) => {
        if (body.id === 'one') {
          send({ method: 'notifications/cancelled', params: { requestId: 'two' } });
          // The reply to what follows shows that the gateway has read that.
          send({ id: 'after', method: 'ping' });
          await server.saw((received) => received.body?.id === 'after');
        }
        if (body.id !== 'after') answered.push(body.id);
        response.writeHead(202).end();
        if (body.id === 'three') end();
      },
    },
  );
  const { gateway } = await gatewayBefore(server, { transport: 'streamable-http' });
  const asked = await callTool(gateway.url, 'ask');
  const { requestState, inputRequests } = asked.response.result;
  const keys = Object.keys(inputRequests);
  expect(keys).toHaveLength(3);
  const inputResponses = Object.fromEntries(keys.map((key) => [key, accept()]));
  await callTool(gateway.url, 'ask', { requestState, inputResponses });
  expect(answered).toEqual(['one', 'three']);
});
