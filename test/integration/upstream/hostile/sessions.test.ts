/** Servers that go wrong before a call begins, in the handshake, or over lists. */
import { describe, expect, test } from 'vitest';
import { systemClock, type Clock } from '../../../../src/lib/clock.ts';
import type { TestGateway } from '../../../fixtures/gateways/gateway.ts';
import { gatewayBefore } from '../../../fixtures/gateways/test-gateway.ts';
import { callTool, send, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import {
  INITIALIZE_RESULT,
  json,
  ScriptedServer,
  type Answer,
} from '../../../fixtures/servers/scripted-server.ts';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import { expectUnharmed } from '../../../fixtures/gateways/survival-testbed.ts';

const SECRET = 'srv-internal-42';
interface Field {
  readonly upstream: ScriptedServer;
  readonly gateway: TestGateway;
  readonly url: string;
  /** What answers a method from now on; methods that are not named are answered as they should. */
  readonly odd: Map<string, Answer>;
}

const results: Readonly<Record<string, object>> = {
  initialize: INITIALIZE_RESULT,
  'tools/call': { content: [{ type: 'text', text: 'echo' }] },
  'tools/list': { tools: [] },
};

type Times = { readonly headersTimeoutMs: number; readonly clock: Clock };
const SHORT: Times = { headersTimeoutMs: 500, clock: systemClock };
/** What is waited for beside a call is soon over. */
const QUICK: Times = { headersTimeoutMs: 300_000, clock: hurriedClock(10) };

/** A server that is sound while the gateway starts and goes wrong when the test says so. */
async function field(times: Times = QUICK): Promise<Field> {
  const odd = new Map<string, Answer>();
  const upstream = await ScriptedServer.start((received, response, request) => {
    const { id, method = received.method } = received.body ?? {};
    const answer = odd.get(method);
    if (answer !== undefined) return answer(received, response, request);
    const result = results[method];
    if (result !== undefined) {
      json(response, 200, { jsonrpc: '2.0', id, result }, { 'mcp-session-id': 'session-1' });
    } else {
      response.writeHead(received.method === 'POST' && id === undefined ? 202 : 405).end();
    }
  });
  const { gateway } = await gatewayBefore(upstream, {
    upstream: { headersTimeoutMs: times.headersTimeoutMs, maxBodyBytes: 20_000 },
    calls: { maxDurationMs: 300_000 },
    clock: times.clock,
  });
  return { upstream, gateway, url: gateway.url, odd };
}

const reasonOf = ({ response }: Exchanged): unknown =>
  response.error?.data?.reason ?? response.result?._meta?.['mrtr-gateway/reason'];

function expectDiscreet(exchanged: Exchanged): void {
  const seen = JSON.stringify([exchanged.response, [...exchanged.headers]]);
  for (const inner of [SECRET, '127.0.0.1', 'ECONN', 'UND_ERR']) expect(seen).not.toContain(inner);
}

const text = (status: number, headers: Record<string, string> = {}, body = SECRET): Answer => {
  return (_received, response) => void response.writeHead(status, headers).end(body);
};
const reply =
  (more: object): Answer =>
  ({ body }, response) =>
    json(response, 200, { jsonrpc: '2.0', id: body.id, ...more });
const cut: Answer = (_received, _response, request) => void request.socket.destroy();
const silent: Answer = () => {};
/** Only what waits for the end of a timeout has a short one. */
const fieldFor = (answer: Answer) => field(answer === silent ? SHORT : QUICK);

// Rule handshake-11: If the handshake fails, the request fails with its own `data.reason`, and the call is not sent.
// An `initialize` has `upstream.headersTimeout`.
// Rule limits-7.
describe('a handshake that goes wrong fails the call, and the next one works', () => {
  test.each<[string, string, Answer, string]>([
    ['no answer', 'initialize', silent, 'upstream_timeout'],
    ['a broken connection', 'initialize', cut, 'upstream_unavailable'],
    ['a failure', 'initialize', text(500), 'upstream_unavailable'],
    ['no time', 'initialize', text(503), 'upstream_busy'],
    ['no trust', 'initialize', text(403), 'unauthorized'],
    ['HTML', 'initialize', text(200, { 'content-type': 'text/html' }), 'upstream_protocol_error'],
    ['a redirect', 'initialize', text(307, { location: '/' }), 'upstream_protocol_error'],
    [
      'no JSON',
      'initialize',
      text(200, { 'content-type': 'application/json' }),
      'upstream_protocol_error',
    ],
    ['no result', 'initialize', reply({ result: {} }), 'upstream_protocol_error'],
    [
      'an odd version',
      'initialize',
      reply({ result: { protocolVersion: SECRET } }),
      'upstream_protocol_error',
    ],
    [
      'an error',
      'initialize',
      reply({ error: { code: 1, message: SECRET } }),
      'upstream_protocol_error',
    ],
    ['no session after all', 'notifications/initialized', text(404), 'upstream_session_lost'],
    ['a broken connection at its end', 'notifications/initialized', cut, 'upstream_unavailable'],
    ['a failure at its end', 'notifications/initialized', text(500), 'upstream_unavailable'],
    ['no answer at its end', 'notifications/initialized', silent, 'upstream_timeout'],
  ])('%s', async (_title, method, answer, reason) => {
    const ground = await fieldFor(answer);
    ground.odd.set(method, answer);
    const exchanged = await callTool(ground.url, 'echo');
    expect(reasonOf(exchanged)).toBe(reason);
    expectDiscreet(exchanged);
    expect(ground.upstream.methods()).not.toContain('tools/call');
    ground.odd.clear();
    await expectUnharmed(ground);
  });
});

// Rules handshake-10, sessions-9.
describe('what goes wrong beside a call does not fail it', () => {
  test.each<[string, string, Answer]>([
    ['the stream for other messages is refused', 'GET', text(500)],
    ['the stream for other messages is silent', 'GET', silent],
    ['the stream for other messages breaks', 'GET', cut],
    ['the end of the session is refused', 'DELETE', text(500)],
    ['the end of the session is not answered', 'DELETE', silent],
    [
      'the session’s id is a long one',
      'initialize',
      ({ body }, response) =>
        json(
          response,
          200,
          { jsonrpc: '2.0', id: body.id, result: INITIALIZE_RESULT },
          { 'mcp-session-id': 's'.repeat(8_000) },
        ),
    ],
  ])('%s', async (_title, method, answer) => {
    const ground = await field();
    ground.odd.set(method, answer);
    const { response } = await callTool(ground.url, 'echo');
    expect(response.result.content[0].text).toBe('echo');
    ground.odd.clear();
    await expectUnharmed(ground);
  });
});

// Rule lists-3.
describe('a list that goes wrong is an error, and the next call works', () => {
  const json200 = { 'content-type': 'application/json' };
  test.each<[string, Answer, string]>([
    ['no answer', silent, 'upstream_timeout'],
    ['a broken connection', cut, 'upstream_unavailable'],
    ['a failure', text(500), 'upstream_unavailable'],
    ['no time', text(429), 'upstream_busy'],
    ['HTML', text(200, { 'content-type': 'text/html' }), 'upstream_protocol_error'],
    ['no JSON', text(200, json200), 'upstream_protocol_error'],
    ['more than the limit', text(200, json200, 'x'.repeat(30_000)), 'upstream_protocol_error'],
    ['pages without end', reply({ result: { tools: [], nextCursor: 'again' } }), 'list_too_long'],
  ])('%s', async (_title, answer, reason) => {
    const ground = await fieldFor(answer);
    ground.odd.set('tools/list', answer);
    const exchanged = await send(ground.url, 'tools/list');
    expect(reasonOf(exchanged)).toBe(reason);
    expectDiscreet(exchanged);
    ground.odd.clear();
    await expectUnharmed(ground);
  });

  // Rule lists-1.
  test.each<[string, object]>([
    ['no tools', {}],
    ['tools that are text', { tools: SECRET }],
    ['tools that are none', { tools: [null, 1, SECRET, [], {}, { name: 7 }] }],
    ['a cursor that is a number', { tools: [], nextCursor: 7 }],
    ['a cursor that is null', { tools: [], nextCursor: null }],
  ])('%s give an empty list', async (_title, result) => {
    const ground = await field();
    ground.odd.set('tools/list', reply({ result }));
    const { response } = await send(ground.url, 'tools/list');
    expect(response.result.tools).toEqual([]);
    expect(response.result).not.toHaveProperty('nextCursor');
    await expectUnharmed(ground);
  });
});
