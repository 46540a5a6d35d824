import { expect, test } from 'vitest';
import { CLIENT_TIMEOUTS } from '../../../../src/edge/http/connection.ts';

// Rules http-8, http-9.
test('how long clients may take is what we tell operators', () => {
  expect(CLIENT_TIMEOUTS).toMatchObject({
    headMs: 10_000,
    requestMs: 30_000,
    idleMs: 65_000,
    writeStallMs: 60_000,
  });
});
