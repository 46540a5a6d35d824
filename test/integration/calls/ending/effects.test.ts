/**
 * Every failure of a call that docs/operations.md lists, brought about on the wire: what the client is
 * told of effects, in the data and in the text, is what the table says.
 */
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import {
  EFFECTS_IN_WORDS,
  RETRYABLE_IN_WORDS,
  type MayHaveActed,
} from '../../../../src/model/failures.ts';
import { accept, callTool, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import { startTestGateway, type GatewayOverrides } from '../../../fixtures/gateways/gateway.ts';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import {
  eventStream,
  json,
  legacyServer,
  ScriptedServer,
  type Answer,
} from '../../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';
import { UNUSUAL_FAILURES } from '../../../fixtures/wire/call-failures.ts';
import { codesIn, tableWith, textOf } from '../../../unit/docs/markdown-tables.ts';

/** Bounds on time that a busy machine does not meet: what is asked here is another failure. */
const BOUNDS: GatewayOverrides = {
  transport: 'streamable-http',
  upstream: { headersTimeoutMs: 100_000, maxBodyBytes: 20_000, maxEventBytes: 20_000 },
  calls: { maxDurationMs: 200_000 },
  drain: { delayMs: 0, parkedMs: 0, timeoutMs: 1_000 },
  clock: hurriedClock(10),
};

/** For the servers that are too slow: the first of these bounds that they meet ends the call. */
const IMPATIENT = {
  upstream: { ...BOUNDS.upstream, headersTimeoutMs: 400 },
  calls: { maxDurationMs: 10_000 },
} satisfies GatewayOverrides;

async function inFrontOf(url: string, overrides: GatewayOverrides = {}) {
  const gateway = await startTestGateway(url, { ...BOUNDS, ...overrides });
  stopAfterTest(() => gateway.close());
  return gateway;
}

async function serving(call: Answer, answer?: Answer, overrides: GatewayOverrides = {}) {
  const server = await legacyServer(call, answer === undefined ? {} : { onResponse: answer });
  stopAfterTest(() => server.stop());
  return { server, gateway: await inFrontOf(server.url, overrides) };
}

/** What one call comes to whose server does this with it. */
async function called(call: Answer, overrides: GatewayOverrides = {}): Promise<Exchanged> {
  const { gateway } = await serving(call, undefined, overrides);
  return callTool(gateway.url, 'act');
}

/** What one call comes to whose server does this with the handshake, and all else. */
async function greeted(answer: Answer, overrides: GatewayOverrides = {}): Promise<Exchanged> {
  const server = await ScriptedServer.start(answer);
  stopAfterTest(() => server.stop());
  return callTool((await inFrontOf(server.url, overrides)).url, 'act');
}

/** A call that has asked, and what becomes of a retry with an answer. */
async function asked(answer?: Answer, overrides: GatewayOverrides = {}, call: Answer = asks()) {
  const { server, gateway } = await serving(call, answer, overrides);
  const first = await callTool(gateway.url, 'act');
  const { requestState, inputRequests } = first.response.result;
  const [key = ''] = Object.keys(inputRequests);
  const retry = (given: object = accept({})): Promise<Exchanged> =>
    callTool(gateway.url, 'act', { requestState, inputResponses: { [key]: given } });
  return { server, gateway, retry };
}

const silent: Answer = () => {};
const cut: Answer = (_received, response) => void response.destroy();
const sends =
  (status: number, headers: Record<string, string> = {}, body = ''): Answer =>
  (_received, response) =>
    void response.writeHead(status, headers).end(body);
/** Writes past the HTTP of the server, and closes. */
const raw =
  (text: string): Answer =>
  (_received, response) =>
    void response.socket?.end(text);
const question = (id: string) => ({
  jsonrpc: '2.0',
  id,
  method: 'elicitation/create',
  params: { message: 'Sure?', requestedSchema: { type: 'object', properties: {} } },
});
const asks =
  (...ids: string[]): Answer =>
  (_received, response) => {
    const stream = eventStream(response);
    for (const id of ids.length === 0 ? ['one'] : ids) stream.send(question(id));
  };
const JSON_TYPE = { 'content-type': 'application/json' };
const EVENTS = { 'content-type': 'text/event-stream' };

/** Port 0 is nobody's, and this one is nobody's any more. */
async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

type Situation = readonly [
  reason: string,
  mayHaveActed: MayHaveActed,
  title: string,
  bringAbout: () => Promise<Exchanged>,
];

const SITUATIONS: readonly Situation[] = [
  [
    'upstream_unavailable',
    'no',
    'nobody listens at the port',
    async () =>
      callTool((await inFrontOf(`http://127.0.0.1:${await closedPort()}/mcp`)).url, 'act'),
  ],
  [
    'upstream_unavailable',
    'no',
    'the name is not known',
    async () => callTool((await inFrontOf('http://server.invalid/mcp')).url, 'act'),
  ],
  ['upstream_unavailable', 'no', 'the handshake breaks off', () => greeted(cut)],
  ['upstream_unavailable', 'no', 'the handshake fails', () => greeted(sends(500))],
  [
    'upstream_unavailable',
    'yes',
    'the connection breaks twice under an answer',
    async () => (await asked(cut)).retry(),
  ],
  ['call_lost', 'unknown', 'the connection is reset after the request', () => called(cut)],
  [
    'call_lost',
    'unknown',
    'a connection that served before is reset',
    async () => {
      const done = { content: [{ type: 'text', text: 'done' }] };
      let calls = 0;
      const { gateway } = await serving((received, response, request) => {
        calls += 1;
        if (calls > 1) return cut(received, response, request);
        json(response, 200, { jsonrpc: '2.0', id: received.body.id, result: done });
      });
      expect((await callTool(gateway.url, 'act')).response.result.content).toEqual(done.content);
      return callTool(gateway.url, 'act');
    },
  ],
  ...[500, 501, 502, 504, 520].map((status): Situation => [
    'call_lost',
    'unknown',
    `HTTP ${status}`,
    () => called(sends(status)),
  ]),
  ['call_lost', 'unknown', 'half a head', () => called(raw('HTTP/1.1 200 OK\r\ncontent-ty'))],
  ['call_lost', 'unknown', 'half an event', () => called(sends(200, EVENTS, 'data: {"json'))],
  [
    'call_lost',
    'yes',
    'the stream breaks after a question',
    async () => {
      const { server, gateway, retry } = await asked();
      server.cut();
      await gateway.log.saw('call.ended');
      return retry();
    },
  ],
  [
    'call_lost',
    'yes',
    'a retry comes after a drain has ended its call',
    async () => {
      const { server, gateway, retry } = await asked();
      const drained = gateway.drain();
      await server.saw(({ body }) => body?.method === 'notifications/cancelled');
      const told = await retry();
      await drained;
      return told;
    },
  ],
  [
    'call_lost',
    'yes',
    'the server does not know the session under an answer',
    async () => (await asked(sends(404))).retry(),
  ],
  ['upstream_busy', 'no', 'HTTP 429', () => called(sends(429))],
  ['upstream_busy', 'unknown', 'HTTP 503', () => called(sends(503))],
  ['upstream_busy', 'no', 'HTTP 503 to the handshake', () => greeted(sends(503))],
  ['upstream_timeout', 'no', 'no answer to the handshake', () => greeted(silent, IMPATIENT)],
  [
    'upstream_timeout',
    'unknown',
    'no answer to the call',
    () => called(silent, { calls: IMPATIENT.calls }),
  ],
  [
    'upstream_timeout',
    'yes',
    'no end after an answer',
    async () => (await asked(sends(202), { calls: IMPATIENT.calls })).retry(),
  ],
  ...[400, 405, 408, 413, 415].map((status): Situation => [
    'upstream_protocol_error',
    'no',
    `HTTP ${status}`,
    () => called(sends(status)),
  ]),
  ['upstream_protocol_error', 'no', 'a redirect of the call', () => called(sends(307))],
  ['upstream_protocol_error', 'unknown', 'a redirect after it', () => called(sends(303))],
  ['upstream_protocol_error', 'unknown', 'HTTP 409', () => called(sends(409))],
  [
    'upstream_protocol_error',
    'unknown',
    'HTML',
    () => called(sends(200, { 'content-type': 'text/html' }, '<html>')),
  ],
  [
    'upstream_protocol_error',
    'unknown',
    'a compressed body',
    () => called(sends(200, { ...JSON_TYPE, 'content-encoding': 'gzip' }, '{}')),
  ],
  [
    'upstream_protocol_error',
    'unknown',
    'JSON that does not parse',
    () => called(sends(200, JSON_TYPE, '{"jsonrpc":')),
  ],
  [
    'upstream_protocol_error',
    'unknown',
    'an event that is no JSON',
    () => called(sends(200, EVENTS, 'data: x\n\n')),
  ],
  [
    'upstream_protocol_error',
    'unknown',
    'a body beyond the limit',
    () => called(sends(200, JSON_TYPE, `"${'x'.repeat(30_000)}"`)),
  ],
  [
    'upstream_protocol_error',
    'unknown',
    'an event beyond the limit',
    () => called(sends(200, EVENTS, `data: "${'x'.repeat(30_000)}"\n\n`)),
  ],
  ['upstream_session_lost', 'no', 'HTTP 404, twice', () => called(sends(404))],
  ['unauthorized', 'no', 'HTTP 401', () => called(sends(401))],
  ['unauthorized', 'no', 'HTTP 403', () => called(sends(403))],
  ['unauthorized', 'yes', 'HTTP 401 to an answer', async () => (await asked(sends(401))).retry()],
  [
    'invalid_request_state',
    'unknown',
    'a requestState that is made up',
    async () => callTool((await serving(silent)).gateway.url, 'act', { requestState: 'made-up' }),
  ],
  [
    'invalid_input_response',
    'yes',
    'an answer of the wrong form',
    async () => (await asked()).retry({ action: 'perhaps' }),
  ],
  [
    '-',
    'yes',
    'a retry that does not declare what is asked',
    async () => {
      const { gateway } = await serving(asks('one', 'two'));
      const first = await callTool(gateway.url, 'act');
      const { requestState } = first.response.result;
      return callTool(gateway.url, 'act', { requestState }, { capabilities: {} });
    },
  ],
  [
    'overloaded',
    'no',
    'one call more than may run',
    async () => {
      const { server, gateway } = await serving(silent, undefined, {
        limits: { maxRunningCalls: 1 },
      });
      const running = callTool(gateway.url, 'act');
      await server.saw(({ body }) => body?.method === 'tools/call');
      const refused = await callTool(gateway.url, 'act');
      server.cut();
      await running;
      return refused;
    },
  ],
  [
    'too_many_parked_calls',
    'yes',
    'one call more than may wait',
    async () => {
      const { gateway } = await asked(undefined, { limits: { maxParkedCalls: 1 } });
      return callTool(gateway.url, 'act');
    },
  ],
  [
    'call_not_answerable',
    'yes',
    'a question in a session without an id',
    async () => {
      const server = await legacyServer(asks(), { sessionId: null });
      stopAfterTest(() => server.stop());
      return callTool((await inFrontOf(server.url)).url, 'act');
    },
  ],
  [
    'unsafe_url',
    'yes',
    'a URL with a user name in it',
    () =>
      called(({ body }, response) => {
        const url = 'https://bank.example@evil.example/';
        const elicitations = [{ mode: 'url', message: 'Visit', url, elicitationId: 'one' }];
        const error = { code: -32042, message: 'Visit', data: { elicitations } };
        json(response, 200, { jsonrpc: '2.0', id: body.id, error });
      }),
  ],
  [
    'too_many_rounds',
    'yes',
    'one round more than allowed',
    async () => {
      let stream: ReturnType<typeof eventStream> | null = null;
      const call: Answer = (_received, response) => {
        stream = eventStream(response);
        stream.send(question('one'));
      };
      const answer: Answer = (_received, response) => {
        response.writeHead(202).end();
        stream?.send(question('two'));
      };
      return (await asked(answer, { parking: { maxRounds: 1 } }, call)).retry();
    },
  ],
  [
    'stopping',
    'no',
    'a call to a gateway that stops',
    async () => {
      const { server, gateway } = await serving(silent);
      const running = callTool(gateway.url, 'act');
      await server.saw(({ body }) => body?.method === 'tools/call');
      const drained = gateway.drain();
      await gateway.log.saw('gateway.draining');
      const refused = await callTool(gateway.url, 'act');
      await Promise.all([running, drained]);
      return refused;
    },
  ],
  [
    'draining',
    'unknown',
    'the gateway stops under a call',
    async () => {
      const { server, gateway } = await serving(silent, undefined, { calls: {} });
      const running = callTool(gateway.url, 'act');
      await server.saw(({ body }) => body?.method === 'tools/call');
      await gateway.drain();
      return running;
    },
  ],
  [
    'draining',
    'yes',
    'the gateway stops under a call that was answered',
    async () => {
      const { server, gateway, retry } = await asked(sends(202), { calls: {} });
      const running = retry();
      await server.saw(({ body }) => body?.result !== undefined);
      await gateway.drain();
      return running;
    },
  ],
];

/** Made where nothing less than several processes or a defect of ours brings them about. */
const ELSEWHERE: readonly (readonly [reason: string, mayHaveActed: string])[] = [
  ...UNUSUAL_FAILURES.map(({ error: { data } }) => {
    const { reason, mayHaveActed } = data as { reason: string; mayHaveActed: string };
    return [reason, mayHaveActed] as const;
  }),
  // See "a defect of ours" in test/unit/edge/edge.test.ts.
  ['internal_error', 'unknown'],
  // See test/integration/replicas/homes.test.ts.
  ['coordination_unavailable', 'no'],
  // See test/integration/replicas/direct-relay.test.ts.
  ['request_too_large', 'no'],
  ['request_too_large', 'yes'],
  // See test/integration/calls/limits/admission.test.ts.
  ['rate_limited', 'no'],
  ['tool_busy', 'no'],
  ['circuit_open', 'no'],
  // See test/integration/observability/live.test.ts.
  ['cancelled_by_operator', 'unknown'],
  ['cancelled_by_operator', 'yes'],
];

const TABLE = tableWith(textOf('docs/operations.md'), '`data.reason`', 'Code', 'HTTP').rows.map(
  ([reason = '', code = '', http = '', said = '']) => ({
    reason: codesIn(reason)[0] ?? '-',
    code: Number(code),
    statuses: http.split(', ').map(Number),
    said: said === '-' ? [] : said.split(', '),
  }),
);

/** What a program reads, wherever it stands. */
function saidBy({ response }: Exchanged) {
  const meta = response.result?._meta;
  const data = meta === undefined ? response.error?.data : null;
  return {
    reason: meta?.['mrtr-gateway/reason'] ?? data?.reason ?? '-',
    mayHaveActed: meta?.['mrtr-gateway/mayHaveActed'] ?? data?.mayHaveActed,
    text: response.error?.message ?? response.result?.content[0].text,
    retryable: data?.retryable === true,
  };
}

describe('a call that fails says whether the server may have acted', () => {
  // Rule failures-3 (RFC 9110, sections 9.2.2 and 15): Every error of the gateway in reply to a call says in
  // `data.mayHaveActed` (in a result: `_meta["mrtr-gateway/mayHaveActed"]`) and in its text whether the
  // server may have acted: `no` only where nothing was sent, or where the status of the response means that
  // the request was not carried out; `yes` where the server has begun; else `unknown`. 503 is `unknown`.
  // Rule failures-4.
  test.each(SITUATIONS)('%s, %s: %s', async (reason, mayHaveActed, _title, bringAbout) => {
    const exchanged = await bringAbout();
    const said = saidBy(exchanged);
    expect(said).toMatchObject({ reason, mayHaveActed });
    const words = said.retryable ? RETRYABLE_IN_WORDS : EFFECTS_IN_WORDS[mayHaveActed];
    expect(said.text).toContain(words);
    const row = TABLE.find((candidate) => candidate.reason === reason);
    expect(row?.said).toContain(mayHaveActed);
    expect(row?.statuses).toContain(exchanged.status);
    const { error } = exchanged.response;
    if (error !== undefined) expect(error.code).toBe(row?.code);
  });

  // Rule failures-3.
  test('and each row of the table is brought about', () => {
    const pairs = (list: readonly (readonly [string, string, ...unknown[]])[]) =>
      list.map(([reason, mayHaveActed]) => `${reason} ${mayHaveActed}`);
    const listed = TABLE.flatMap(({ reason, said }) => said.map((word) => `${reason} ${word}`));
    const broughtAbout = new Set([...pairs(SITUATIONS), ...pairs(ELSEWHERE)]);
    expect([...broughtAbout].sort()).toEqual(listed.sort());
  });
});
