/** The places that listeners take, with tasks and a pool that the test plays. */
import { expect, test } from 'vitest';
import { LocalCounts, Quota } from '../../../src/lib/counts.ts';
import { waiterWithoutNotifications } from '../../../src/model/request.ts';
import { clientRequestId } from '../../../src/protocol/ids.ts';
import { Subscriptions, type FollowedTasks } from '../../../src/subscriptions/subscriptions.ts';
import { RETRY } from '../../fixtures/clients/edge-request.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const TASK_LISTENER = {
  ...RETRY,
  profile: { ...RETRY.profile, tasks: true as const },
  params: { notifications: { taskIds: ['task'] } },
};

function subscriptionsWith(has: FollowedTasks['has']) {
  const quota = new Quota('listeners', () => ({ max: 1, maxPerPrincipal: 1 }), new LocalCounts());
  const subscriptions = new Subscriptions({
    route: 'route',
    pool: {
      canListen: false,
      leaseToListen: () => Promise.reject(new Error('not asked for')),
      sharingKey: () => null,
    },
    quota,
    tasks: { has, follow: () => () => {} },
    maxResourcesPerListener: 10,
    clock: new ManualClock(),
    log: { event: () => {}, takes: () => true },
  });
  const { promise: over, resolve: close } = Promise.withResolvers<void>();
  const waiter = { ...waiterWithoutNotifications(), over };
  return {
    quota,
    subscriptions,
    listening: subscriptions.listen(TASK_LISTENER, clientRequestId(1), waiter, () => () => {}),
    close: () => {
      close();
      return over;
    },
  };
}

test('a listener whose tasks cannot be looked up takes its place until its connection closes', async () => {
  const { quota, listening, close } = subscriptionsWith(() =>
    Promise.reject(new TypeError('a defect')),
  );
  const { principalKey } = TASK_LISTENER.caller;
  await expect(listening).rejects.toThrow('a defect');
  expect(quota.take(principalKey)).toBeNull();
  await close();
  expect(quota.take(principalKey)).not.toBeNull();
});

test('a listener whose tasks are looked up when all listeners are ended does not begin', async () => {
  const { promise: found, resolve: find } = Promise.withResolvers<boolean>();
  const { subscriptions, listening } = subscriptionsWith(() => found);
  subscriptions.endAll();
  find(true);
  expect(await listening).toMatchObject({ failure: { error: { data: { reason: 'stopping' } } } });
});
