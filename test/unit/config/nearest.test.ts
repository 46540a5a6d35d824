import { expect, test } from 'vitest';
import { nearest } from '../../../src/config/load/problem.ts';

const KEYS = ['listen', 'admin', 'routes', 'upstream', 'transport', 'maxBody'];

test.each([
  ['listn', 'listen'],
  ['lsiten', 'listen'],
  ['Routes', 'routes'],
  ['route', 'routes'],
  ['upsteram', 'upstream'],
  ['max_body', 'maxBody'],
])('%s was meant to be %s', (written, meant) => {
  expect(nearest(written, KEYS)).toBe(meant);
});

test.each(['x', 'telemetry', '', 'a'.repeat(100_000)])('%j resembles nothing', (written) => {
  expect(nearest(written.slice(0, 200_000), KEYS)).toBeNull();
});

test('without known words there is nothing to suggest', () => {
  expect(nearest('listen', [])).toBeNull();
});
