/** Work that nobody waits for. */
import { expect, test } from 'vitest';
import { inBackground, onDefect, reportDefect } from '../../../src/lib/background.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

/** What is reported until the test ends. */
function reported(): unknown[] {
  const errors: unknown[] = [];
  const end = onDefect(({ error }) => errors.push(error));
  stopAfterTest(async () => end());
  return errors;
}

test('a defect in work that nobody waits for is reported', async () => {
  const errors = reported();
  const defect = new TypeError('a defect');
  inBackground(Promise.reject(defect));
  inBackground(Promise.resolve('done'));
  inBackground(undefined);
  await new Promise(setImmediate);
  expect(errors).toEqual([defect]);
});

test('a defect ends what cannot go on, and is reported with where it was', async () => {
  const defects: unknown[] = [];
  const stop = onDefect((defect) => defects.push(defect));
  stopAfterTest(async () => stop());
  const ended: unknown[] = [];
  const end = (error: unknown) => ended.push(error);
  const defect = new TypeError('a defect');
  inBackground(Promise.reject(defect), end, { route: 'mcp' });
  await new Promise(setImmediate);
  expect([ended, defects]).toEqual([[defect], [{ route: 'mcp', error: defect }]]);
});

test('a defect that nobody hears of is thrown', () => {
  const defect = new TypeError('a defect');
  expect(() => reportDefect({ error: defect })).toThrow(defect);
});
