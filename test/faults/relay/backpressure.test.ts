/** Retries that another replica serves, whose owner says more than their client takes at once. */
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { answersOf, legacyServer, replicas } from '../../fixtures/gateways/replica-testbed.ts';
import { MIB, openCall, pacedAt, stopsOnce, textOf, upTo } from '../../fixtures/servers/flood.ts';
import type { Tool } from '../../fixtures/servers/legacy/tools.ts';
import { askName } from '../../fixtures/servers/legacy-server.ts';

const EVENTS = 1_500;
const message = 'x'.repeat(10_000);

const tools: Record<string, Tool> = {
  flood: async (call) => {
    const name = await askName(call);
    const { extra } = call;
    const progressToken = extra._meta?.progressToken ?? 'none';
    for (let progress = 1; progress <= EVENTS; progress += 1) {
      const params = { progressToken, progress, message };
      await extra.sendNotification({ method: 'notifications/progress', params });
    }
    return name;
  },
};

// Rule relay-13.
test('a client that reads at full speed gets everything over the relay', { timeout: 60_000 }, () =>
  expectEverything(undefined),
);

test.each([
  ['reads slowly', pacedAt(4 * MIB)],
  ['stops reading for five seconds', stopsOnce(5_000)],
])(
  'a client that %s gets everything over the relay',
  { tags: ['long'], timeout: 60_000 },
  (_how, pace) => expectEverything(pace),
);

type Pace = Parameters<Awaited<ReturnType<typeof openCall>>['take']>[0];

async function expectEverything(pace: Pace): Promise<void> {
  const legacy = await legacyServer({ tools });
  const [one, other] = await replicas(legacy, 2);
  const asked = await callTool(one.url, 'flood', {}, { meta: { progressToken: 'flood' } });
  const taken = await (await openCall(other.url, 'flood', answersOf(asked, 'Ada'))).take(pace);
  expect(textOf(taken)).toBe('Ada');
  expect(taken.progress).toEqual(upTo(EVENTS));
  expect(await other.recoveries()).toEqual(['relay']);
  expect([...one.named('notifications.dropped'), ...other.named('notifications.dropped')]).toEqual(
    [],
  );
}
