/** A defect of the gateway in one call. */
import { expect, test } from 'vitest';
import { callTool } from '../../../fixtures/clients/modern-client.ts';
import { legacyGateway } from '../../../fixtures/gateways/legacy-gateway.ts';
import { answersOf } from '../../../fixtures/gateways/replica-testbed.ts';
import { askName } from '../../../fixtures/servers/legacy-server.ts';
import { onDefect, type Defect } from '../../../../src/lib/background.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';

// Rule start-4.
test('ends that call with a clear error, and no other one', async () => {
  const defects: Defect[] = [];
  const end = onDefect((defect) => defects.push(defect));
  stopAfterTest(async () => end());
  const { gateway, url } = await legacyGateway({ tools: { ask: askName } });
  const [first, other] = [await callTool(url, 'ask'), await callTool(url, 'ask')];
  const defect = new TypeError('a defect');
  const event = gateway.log.event.bind(gateway.log);
  const broken = gateway.log.named('call.parked')[0]?.['call'];
  gateway.log.event = (name, fields) => {
    event(name, fields);
    const { call, rule } = fields as { call?: unknown; rule?: unknown };
    if (call === broken && rule === 'answers-taken') throw defect;
  };
  const failed = await callTool(url, 'ask', answersOf(first, 'Ada'));
  expect(failed.response.error).toMatchObject({
    code: -32603,
    data: { reason: 'internal_error', mayHaveActed: 'unknown' },
  });
  expect(defects).toEqual([{ error: defect, route: 'mcp', call: broken }]);
  const done = await callTool(url, 'ask', answersOf(other, 'Bob'));
  expect(done.response.result.content).toEqual([{ type: 'text', text: 'Bob' }]);
});
