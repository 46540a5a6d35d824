import { expect, test } from 'vitest';
import {
  SessionIds,
  isOfSameSession,
} from '../../../../src/upstream/discovery/broadcast-detector.ts';

const SESSIONS = 2_000;
const IDS = 10;
const sessions = Array.from({ length: SESSIONS }, () => new SessionIds());
const numbers = sessions.map((ids) => Array.from({ length: IDS }, () => ids.nextNumber()));
const texts = sessions.map((ids) => Array.from({ length: IDS }, () => ids.nextText()));

// Rule wire-3.
test('ids of requests are exact integers of 53 bits, and none is used twice', () => {
  const ids = numbers.flat();
  expect(ids.every((id) => Number.isSafeInteger(id) && Number(id) >= 2 ** 52)).toBe(true);
  expect(new Set(ids).size).toBe(ids.length);
  // Each of the 52 bits below the highest is set in some and clear in others, so none lost its randomness.
  const everSet = ids.reduce((bits, id) => bits | BigInt(id), 0n);
  const alwaysSet = ids.reduce((bits, id) => bits & BigInt(id), ~0n);
  expect(everSet).toBe(2n ** 53n - 1n);
  expect(alwaysSet).toBe(2n ** 52n);
});

// Rule wire-3.
test('a session uses no number twice', () => {
  const session = new SessionIds();
  const ids = Array.from({ length: 200_000 }, () => session.nextNumber());
  expect(new Set(ids).size).toBe(ids.length);
});

test('text ids are of one form, and none is used twice', () => {
  const ids = texts.flat();
  expect(ids.filter((id) => !/^mrtr-[\w-]{22}$/.test(String(id)))).toEqual([]);
  expect(new Set(ids).size).toBe(ids.length);
});

test.each([
  ['numbers', numbers],
  ['texts', texts],
])('%s of one session are recognized, and those of no other one', (_, ids) => {
  const [own, ...others] = ids;
  const first = own![0]!;
  expect(own!.filter((id) => !isOfSameSession(first, id))).toEqual([]);
  expect(others.flat().filter((id) => isOfSameSession(first, id))).toEqual([]);
});

test.each([0, 1, -1, 2 ** 32 + 1, 2 ** 53, 'mrtr-', 'something', null, 1.5])(
  '%j is of no session of ours',
  (id) => {
    expect(isOfSameSession(numbers[0]![0]!, id)).toBe(false);
    expect(isOfSameSession(texts[0]![0]!, id)).toBe(false);
  },
);
