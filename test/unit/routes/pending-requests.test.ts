import { expect, test } from 'vitest';
import { onDefect } from '../../../src/lib/background.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { PendingRequests } from '../../../src/routes/pending-requests.ts';

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

test('work that rejects after a stop is reported, and is the failure of nobody else', async () => {
  const defects: unknown[] = [];
  const end = onDefect(({ error }) => defects.push(error));
  stopAfterTest(async () => end());
  const pending = new PendingRequests();
  pending.endAll();
  const defect = new Error('a defect');
  expect(await pending.add(Promise.reject(defect), 'stopped')).toBe('stopped');
  await new Promise(setImmediate);
  expect(defects).toEqual([defect]);
});
