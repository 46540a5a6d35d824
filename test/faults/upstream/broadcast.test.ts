/**
 * A bridge that sends everything to everybody: supergateway as it is by default, real, in front of a
 * server over stdio. Nobody may see the question or the result of somebody else.
 */
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { expect, test } from 'vitest';
import { accept, callTool, send } from '../../fixtures/clients/modern-client.ts';
import { keepSecret, type Kept } from '../../fixtures/clients/secret-keeper.ts';
import {
  GatewayProcess,
  type GatewayProcessOptions,
} from '../../fixtures/gateways/gateway-process.ts';
import { startSupergateway } from '../../fixtures/real-servers/supergateway.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

async function bridge(what: 'everything' | 'keeper'): Promise<string> {
  const server = await startSupergateway(what);
  stopAfterTest(() => server.stop());
  return `${server.origin}/sse`;
}

async function gateway(upstream: string, options: Partial<GatewayProcessOptions> = {}) {
  const started = await GatewayProcess.start({ upstream, relay: false, ...options });
  stopAfterTest(() => started.kill());
  return started;
}

const CALLERS = ['alice', 'bob', 'carol', 'dave'];
/** Each caller several times. */
const calls = (times: number) =>
  CALLERS.flatMap((who) => Array.from({ length: times }, (_, time) => `${who} ${time}`));

const ownOf = (who: string): Kept => ({
  who,
  asked: [`The secret of ${who}?`],
  text: `${who}: secret of ${who}`,
  reason: null,
});

// Rule mixed-sessions-4: A server that sends messages to the wrong session is served by one session, one call at a
// time. 100 calls wait, each for `sessions.queue.wait`.
test('of several callers, each is asked its own questions and gets its own result', async () => {
  const { url, named } = await started(await gateway(await bridge('keeper')));
  const kept = await Promise.all(calls(6).map((who) => keepSecret(() => url, who)));
  expect(kept).toEqual(calls(6).map(ownOf));
  expect(named('upstream.broadcasts')).toHaveLength(1);
});

// Rule mixed-sessions-4.
test('of several callers of the reference server, each gets its own result, and lists are served beside calls', async () => {
  const { url, named } = await started(await gateway(await bridge('everything')));
  // No roots: the reference server asks for them by itself, a moment after each handshake.
  const as = (who: string) => ({
    headers: { authorization: `Bearer of-${who}` },
    capabilities: { elicitation: { form: {} } },
  });
  const echo = async (who: string) => {
    const { response } = await callTool(url, 'echo', { arguments: { message: who } }, as(who));
    return response.result.content[0].text;
  };
  const form = async (who: string) => {
    const asked = await callTool(url, 'trigger-elicitation-request', {}, as(who));
    const { inputRequests, requestState } = asked.response.result;
    const listed = await send(url, 'tools/list', {}, as('somebody'));
    expect(listed.response.result.tools.length).toBeGreaterThan(10);
    const answers = Object.keys(inputRequests).map((key) => [
      key,
      accept({ name: who, check: true }),
    ]);
    const more = { requestState, inputResponses: Object.fromEntries(answers) };
    const done = await callTool(url, 'trigger-elicitation-request', more, as(who));
    return JSON.stringify(done.response.result.content);
  };
  const echoes = Promise.all(calls(5).map(echo));
  const forms = Promise.all(CALLERS.map(form));
  expect(await echoes).toEqual(calls(5).map((who) => `Echo: ${who}`));
  for (const [index, said] of (await forms).entries()) expect(said).toContain(CALLERS[index]);
  expect(named('upstream.broadcasts')).toHaveLength(1);
});

// Rule mixed-sessions-4.
test('a call that waits for a parked one of before is told within the time of the queue, and can be made after it', async () => {
  const route = { sessions: { queue: { wait: '1s' } } };
  const started = await gateway(await bridge('keeper'), { route });
  const { url } = started;
  const as = (who: string) => ({ headers: { authorization: `Bearer of-${who}` } });
  const keep = (who: string, more: object = {}) =>
    callTool(url, 'keep', { arguments: { who }, ...more }, as(who));
  const { response } = await keep('alice');
  const { inputRequests, requestState } = response.result;
  const waiting = await keep('bob');
  await started.saw('upstream.broadcasts');
  expect(waiting.response.error.data).toMatchObject({
    reason: 'upstream_busy',
    mayHaveActed: 'no',
  });
  const [key = ''] = Object.keys(inputRequests);
  const inputResponses = { [key]: accept({ secret: 'of alice' }) };
  const done = await keep('alice', { requestState, inputResponses });
  expect(done.response.result.content[0].text).toBe('alice: of alice');
  expect((await keepSecret(() => url, 'bob')).text).toBe('bob: secret of bob');
});

// Rule mixed-sessions-5: If several replicas use such a server, its questions are refused: `call_not_answerable` with
// `data.cause` `broadcast`.
test('with several replicas a question ends in an error that says why, and what asks nothing is served', async () => {
  const upstream = await bridge('keeper');
  const replicas = await Promise.all([
    gateway(upstream, { relay: true }),
    gateway(upstream, { relay: true }),
  ]);
  const urlOf = (index: number) => () => replicas[index % 2]?.url ?? '';
  const kept = await Promise.all(calls(2).map((who, index) => keepSecret(urlOf(index), who)));
  for (const { who, asked, text, reason } of kept) {
    expect({ who, asked, text, reason }).toEqual({
      who,
      asked: [],
      text: null,
      reason: 'call_not_answerable',
    });
  }
  const said = await Promise.all(
    calls(2).map((who, index) =>
      keepSecret(urlOf(index), who, { tool: 'say', arguments: { who, afterMs: 5 } }),
    ),
  );
  expect(said.map(({ text }) => text)).toEqual(calls(2).map((who) => `said by ${who}`));
});

// Rule questions-3.
test('a session without a call leaves the questions of other clients alone', async () => {
  const upstream = await bridge('keeper');
  const { url } = await gateway(upstream);
  // The session that lists tools stays open for a while.
  await send(url, 'tools/list');
  const client = new Client(
    { name: 'direct', version: '1.0.0' },
    { capabilities: { elicitation: {} } },
  );
  client.setRequestHandler(ElicitRequestSchema, async () => {
    // The gateway would have answered long before.
    await new Promise((resolve) => setTimeout(resolve, 200));
    return { action: 'accept' as const, content: { secret: 'of its own' } };
  });
  await client.connect(new SSEClientTransport(new URL(upstream)));
  stopAfterTest(() => client.close());
  const result = await client.callTool({ name: 'keep', arguments: { who: 'direct' } });
  expect(result.content).toEqual([{ type: 'text', text: 'direct: of its own' }]);
});

async function started(process: GatewayProcess) {
  return { url: process.url, named: (event: string) => process.named(event) };
}
