import { expect, test } from 'vitest';
import { loadedOnce } from '../../../src/lib/once.ts';

test('what could not be loaded is tried again, and what was loaded is kept', async () => {
  const results = [Promise.reject(new Error('EMFILE')), Promise.resolve('module')];
  let loads = 0;
  const load = loadedOnce(() => results[loads++] ?? Promise.reject(new Error('again')));
  await expect(Promise.all([load(), load()])).rejects.toThrow('EMFILE');
  expect(loads).toBe(1);
  expect(await Promise.all([load(), load()])).toEqual(['module', 'module']);
  expect(await load()).toBe('module');
  expect(loads).toBe(2);
});
