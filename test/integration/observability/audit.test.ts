/** Who answered what, as the log of a real gateway says it. */
import { createHmac, hash, hkdfSync } from 'node:crypto';
import { expect, test } from 'vitest';
import { SEAL } from '../../fixtures/gateways/gateway-process.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { askName } from '../../fixtures/servers/legacy-server.ts';
import {
  answersOf,
  legacyServer,
  replica,
  replicas,
  stateOf,
} from '../../fixtures/gateways/replica-testbed.ts';

const TRACE = '3'.repeat(32);

/** As docs/operate/log.md says that an operator can find it. */
function whoIs(principal: string): string {
  const secret = Buffer.from(SEAL.keys[0]!.key, 'base64url');
  const key = hkdfSync('sha256', secret, '', 'mrtr-gateway/audit/v1', 32);
  return createHmac('sha256', Buffer.from(key)).update(principal).digest('base64url').slice(0, 16);
}

// Rule audit-1: Each answered round is one `audit` line: caller, client, trace, tool, time, and how many questions
// were accepted, declined or cancelled.
test('a round that is answered is one audit line, without what was answered', async () => {
  const legacy = await legacyServer({
    tools: { deploy: (call) => askName(call, 'secret question?') },
  });
  const [owner, other] = await replicas(legacy, 2, {
    config: {
      identity: { source: 'header', header: 'X-User' },
      edge: { trustedProxies: ['127.0.0.1'] },
    },
  });
  const headers = { 'x-user': 'ada', 'x-forwarded-for': '203.0.113.9, 198.51.100.7' };
  const meta = { traceparent: `00-${TRACE}-${'a'.repeat(16)}-01` };
  const ask = () => callTool(owner.url, 'deploy', {}, { headers });
  const asked = await ask();
  await callTool(other.url, 'deploy', answersOf(asked, 'secret answer'), { headers, meta });
  const declined = await ask();
  const [key = ''] = Object.keys(declined.response.result.inputRequests);
  const no = { requestState: stateOf(declined), inputResponses: { [key]: { action: 'decline' } } };
  await callTool(owner.url, 'deploy', no, { headers, meta });

  const [yes, refused] = await owner.saw('audit', 2);
  const of = {
    ...{ level: expect.anything(), route: 'mcp', round: 1, trace: TRACE },
    ...{ who: whoIs('header:ada'), client: 'test', address: '198.51.100.7' },
    ...{
      method: 'tools/call',
      target: 'deploy',
      recoveredBy: 'here',
      waitedMs: expect.any(Number),
    },
  };
  expect(yes).toMatchObject({ ...of, accepted: 1, declined: 0, cancelled: 0, failed: 0 });
  expect(refused).toMatchObject({ ...of, accepted: 0, declined: 1, cancelled: 0, failed: 0 });
  expect(JSON.stringify([...owner.lines(), ...other.lines()])).not.toMatch(/secret/);
});

// Rule audit-3: The caller is an HMAC with a key from `seal.keys`, the same at all replicas.
test('who is the same at all replicas, and nobody finds it with a list of names', async () => {
  const legacy = await legacyServer({ tools: { deploy: (call) => askName(call) } });
  const identity = { source: 'header', header: 'X-User' };
  const names: unknown[] = [];
  for (const gateway of await replicas(legacy, 2, { relay: false, config: { identity } })) {
    const headers = { 'x-user': 'ada' };
    const asked = await callTool(gateway.url, 'deploy', {}, { headers });
    await callTool(gateway.url, 'deploy', answersOf(asked, 'Ada'), { headers });
    names.push((await gateway.saw('audit'))[0]?.['who']);
  }
  expect(names).toEqual([whoIs('header:ada'), whoIs('header:ada')]);
  expect(names).not.toContain(hash('sha256', 'header:ada', 'base64url').slice(0, 16));
});

// Rule audit-1.
test('an answer that came ahead is in the audit', async () => {
  const legacy = await legacyServer({ tools: { greet: (call) => askName(call) } });
  const route = { questions: { keyNames: { greet: ['name'] } } };
  const gateway = await replica(legacy, { route, relay: false });
  const inputResponses = { name: { action: 'accept', content: { name: 'Ada' } } };
  await callTool(gateway.url, 'greet', { inputResponses });
  const line = {
    who: 'local-user',
    address: '127.0.0.1',
    recoveredBy: 'ahead',
    accepted: 1,
    target: 'greet',
  };
  expect(await gateway.saw('audit')).toMatchObject([line]);
});
