/** A call that the server ended with URLs to visit is made again once; that allows no replay beyond it. */
import { expect, test } from 'vitest';
import {
  answersOf,
  legacyServer,
  reasonOf,
  replicas,
  stateOf,
  text,
} from '../fixtures/gateways/replica-testbed.ts';
import type { Tool } from '../fixtures/servers/legacy/tools.ts';
import { askName } from '../fixtures/servers/legacy-server.ts';
import { callTool, type Exchanged } from '../fixtures/clients/modern-client.ts';

const URLS = Object.assign(new Error('visit first'), {
  code: -32042,
  data: {
    elicitations: [
      { mode: 'url', message: 'Pay', url: 'https://pay.example/1', elicitationId: 'e' },
    ],
  },
});

const visited = (asked: Exchanged) => ({
  requestState: stateOf(asked),
  inputResponses: { 'elicitation-1': { action: 'accept' } },
});

/** Fails with URLs at first; then it has an effect, and goes on as the test wants. */
function paying(then: Tool) {
  const seen = { urls: false, effects: 0 };
  const pay: Tool = async (call) => {
    if (!seen.urls) {
      seen.urls = true;
      // It knows of the visit: else the gateway would wait for that before it makes the call again.
      const method = 'notifications/elicitation/complete';
      await call.server.notification({ method, params: { elicitationId: 'e' } });
      throw URLS;
    }
    seen.effects += 1;
    return then(call);
  };
  return { seen, tools: { pay } };
}

// Rule url-errors-1.
test('a stream that breaks after the call was made again does not lead to a third call', async () => {
  const { seen, tools } = paying(() => new Promise(() => {}));
  const legacy = await legacyServer({ tools });
  const [gateway] = await replicas(legacy, 1);
  const asked = await callTool(gateway.url, 'pay');
  const paid = callTool(gateway.url, 'pay', visited(asked));
  await legacy.saw('tools/call', 2);
  legacy.cut();
  expect(reasonOf(await paid)).toBe('call_lost');
  const again = await callTool(gateway.url, 'pay', visited(asked));
  expect(reasonOf(again)).toBe('call_lost');
  expect(seen.effects).toBe(1);
});

// Rule url-errors-1.
test('another replica makes the call again when the owner is gone, but not what comes after', async () => {
  const { seen, tools } = paying(async (call) => `paid by ${await askName(call)}`);
  const legacy = await legacyServer({ tools });
  const [one, other, third] = await replicas(legacy, 3);
  const asked = await callTool(one.url, 'pay');
  await one.kill();
  const question = await callTool(other.url, 'pay', visited(asked));
  expect(question.response.result.resultType).toBe('input_required');
  await other.kill();
  const lost = await callTool(third.url, 'pay', answersOf(question, 'Ada'));
  expect(reasonOf(lost)).toBe('call_lost');
  expect(seen.effects).toBe(1);
});

// Rule url-errors-1.
test('where the operator allows it, what comes after is replayed, too', async () => {
  const { seen, tools } = paying(async (call) => `paid by ${await askName(call)}`);
  const legacy = await legacyServer({ tools });
  const allowed = { continuation: { replay: { tools: ['pay'] } } };
  const [one, other, third] = await replicas(legacy, 3, { route: allowed });
  const asked = await callTool(one.url, 'pay');
  await one.kill();
  const question = await callTool(other.url, 'pay', visited(asked));
  await other.kill();
  expect(text(await callTool(third.url, 'pay', answersOf(question, 'Ada')))).toBe('paid by Ada');
  expect(seen.effects).toBe(2);
});
