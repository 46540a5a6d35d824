import { expect, test } from 'vitest';
import { PendingRequests } from '../../../src/app/public/pending-requests.ts';

test('work that rejects is the failure of its own request', async () => {
  const pending = new PendingRequests();
  const defect = new Error('a defect');
  await expect(pending.add(Promise.reject(defect), 'stopped')).rejects.toBe(defect);
  expect(await pending.add(Promise.resolve('done'), 'stopped')).toBe('done');
});

test('a stop ends what waits, and what comes later', async () => {
  const pending = new PendingRequests();
  const never = pending.add(new Promise<string>(() => {}), 'stopped');
  pending.endAll();
  expect(await never).toBe('stopped');
  expect(await pending.add(Promise.resolve('done'), 'stopped')).toBe('stopped');
});
