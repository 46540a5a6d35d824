/** Sessions of which a part breaks: their standalone stream, their place at a server, the stream of one call. */
import { describe, expect, test } from 'vitest';
import { accept, callTool, type Exchanged } from '../../fixtures/clients/modern-client.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { advanceUntil, ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import { SessionProxy, type Refusal } from '../../fixtures/network/session-proxy.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';

const textOf = ({ response }: Exchanged) =>
  String(response.result?.content?.[0]?.text ?? JSON.stringify(response));

async function gatewayTo(url: string) {
  const proxy = await SessionProxy.before(url);
  const clock = new ManualClock();
  const gateway = await testGateway(proxy.url, { clock });
  const call = async (name: string, more: object = {}) =>
    textOf(await callTool(gateway.url, name, more));
  /** Calls a tool that asks. @returns answers it */
  const park = async (name: string) => {
    const { response } = await advanceUntil(clock, callTool(gateway.url, name));
    const { requestState, inputRequests } = response.result;
    const keys = Object.keys(inputRequests);
    const inputResponses = Object.fromEntries(keys.map((key) => [key, accept({ name: 'Ada' })]));
    return () => advanceUntil(clock, call(name, { requestState, inputResponses }));
  };
  const gets = () => proxy.count(({ method }) => method === 'GET');
  /** Lets time pass, in steps in which responses come. */
  const pass = async (ms: number) => {
    for (let passedMs = 0; passedMs < ms; passedMs += 50) {
      clock.advance(50);
      let turns = 0;
      await turnsUntil(() => (turns += 1) > 50);
    }
  };
  /** Takes the standalone stream away, for as long as calls wait for it, whatever the refusal says. */
  const loseStream = async (refusal: Refusal) => {
    const before = gets();
    proxy.refuseStreams(refusal);
    await pass(2_500);
    expect(gets()).toBeGreaterThan(before);
  };
  const sessions = () => ({
    opened: proxy.count(({ message }) => message === 'initialize'),
    ended: proxy.count(({ method }) => method === 'DELETE'),
    used: new Set(
      proxy.passed.filter(({ message }) => message === 'tools/call').map(({ session }) => session),
    ).size,
  });
  return { proxy, clock, gateway, call, park, gets, pass, loseStream, sessions };
}

describe('a session whose standalone stream breaks and is refused from then on', () => {
  // Rule sessions-8.
  test.each<[string, Refusal]>([
    ['405', { status: 405 }],
    ['400 and a text', { status: 400, body: 'session already exists' }],
    [
      '409 and an error',
      {
        status: 409,
        type: 'application/json',
        body: '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Conflict: Only one SSE stream is allowed per session"}}',
      },
    ],
    ['500', { status: 500 }],
    ['501 and a page', { status: 501, type: 'text/html', body: '<h1>No</h1>' }],
    ['404, while a ping has its reply', { status: 404, body: 'no such stream' }],
  ])('keeps its state, and serves its parked calls: %s', async (_refusal, refusal) => {
    const { server } = await countingServer();
    const { clock, gateway, call, park, gets, pass, loseStream, sessions } = await gatewayTo(
      server.url,
    );
    expect([await call('count'), await call('count')]).toEqual(['1', '2']);
    const answer = await park('ask');
    const before = sessions();
    await loseStream(refusal);
    // No time of the gateway passes: no call waits for a stream that is refused.
    expect(await advanceUntil(clock, call('count'), 0)).toBe('3');
    expect(await answer()).toBe('Ada 4');
    await pass(40_000);
    expect(await advanceUntil(clock, call('count'), 0)).toBe('5');
    expect(sessions()).toEqual(before);
    expect(sessions().used).toBe(1);
    expect(gateway.log.named('session.stream_lost')).toHaveLength(1);
    expect(gets()).toBeGreaterThan(3);
  });
});

// Rule concurrent-7.
test('a call goes on whose server forgets the session for new messages, and its caller has a new one beside it', async () => {
  const { server, open } = await countingServer();
  const { proxy, call, sessions } = await gatewayTo(server.url);
  expect(await call('count')).toBe('1');
  const { opened } = sessions();
  const running = call('slow');
  await server.saw('tools/call', 2);
  proxy.forgetSessions();
  expect([await call('count'), await call('count')]).toEqual(['1', '2']);
  expect(sessions().opened).toBe(opened + 1);
  open();
  expect(await running).toBe('2');
  expect(await call('count')).toBe('3');
});
