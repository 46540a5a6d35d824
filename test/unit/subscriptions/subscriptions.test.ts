/** The places that listeners take, with tasks and a pool that the test plays. */
import { expect, test } from 'vitest';
import { LocalCounts, Quota } from '../../../src/lib/counts.ts';
import { legWithoutNotifications } from '../../../src/model/request.ts';
import { clientRequestId } from '../../../src/protocol/ids.ts';
import { Subscriptions } from '../../../src/subscriptions/subscriptions.ts';
import { RETRY } from '../../fixtures/clients/edge-request.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

test('a listener whose tasks cannot be looked up takes its place until its connection closes', async () => {
  const quota = new Quota('listeners', () => ({ max: 1, maxPerPrincipal: 1 }), new LocalCounts());
  const subscriptions = new Subscriptions({
    route: 'route',
    pool: {
      canListen: false,
      leaseToListen: () => Promise.reject(new Error('not asked for')),
      sharingKey: () => null,
    },
    quota,
    tasks: {
      has: () => Promise.reject(new TypeError('a defect')),
      follow: () => () => {},
    },
    maxResourcesPerListener: 10,
    clock: new ManualClock(),
    log: { event: () => {}, takes: () => true },
  });
  const { promise: over, resolve: close } = Promise.withResolvers<void>();
  const request = {
    ...RETRY,
    profile: { ...RETRY.profile, tasks: true as const },
    params: { notifications: { taskIds: ['task'] } },
  };
  const leg = { ...legWithoutNotifications(), over };
  const listening = subscriptions.listen(request, clientRequestId(1), leg);
  await expect(listening).rejects.toThrow('a defect');
  expect(quota.take(request.caller.principalKey)).toBeNull();
  close();
  await over;
  expect(quota.take(request.caller.principalKey)).not.toBeNull();
});
