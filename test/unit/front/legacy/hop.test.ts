/** A request for a session at another process: what its client is told if that process does not reply. */
import { expect, test } from 'vitest';
import { serveElsewhere } from '../../../../src/front/legacy/hop.ts';
import { Reply } from '../../../../src/front/legacy/reply.ts';
import type { RelayOutcome } from '../../../../src/model/relay.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

const OWNER = { id: 'a', instance: 'A' };

async function serve(verb: 'POST' | 'GET', outcome: RelayOutcome) {
  const relay = { relay: () => Promise.resolve(outcome), sendClientsBack: () => {} };
  const response = new Reply();
  const nothing = { accept: null, version: null, lastEventId: null, headers: {} };
  const request = { verb, route: 'mcp', key: 'key', body: '{}', ...nothing } as const;
  await serveElsewhere(relay, OWNER, request, response);
  const text = await response.within(1_000, new ManualClock());
  const { error } = JSON.parse(text ?? '') as { error: { data: { mayHaveActed: string } } };
  return { status: response.httpStatus, mayHaveActed: error.data.mayHaveActed };
}

test.each(['gone', 'silent', 'unreachable', 'released'] as const)(
  'what the process may have begun is not said to be undone if that is %s',
  async (type) => {
    const outcome = { type, problem: 'p', isConfirmed: true };
    expect(await serve('POST', outcome)).toEqual({ status: 502, mayHaveActed: 'unknown' });
  },
);

test.each([
  ['gone', 404],
  ['unknown', 404],
  ['silent', 503],
  ['unreachable', 503],
] as const)('a process that is %s has begun nothing it had not agreed to', async (type, status) => {
  const outcome = { type, problem: 'p', isConfirmed: false };
  expect(await serve('POST', outcome)).toEqual({ status, mayHaveActed: 'no' });
});

test('a client that listens at a process that is gone opens another session', async () => {
  const outcome = { type: 'gone', problem: 'p', isConfirmed: true } as const;
  expect(await serve('GET', outcome)).toEqual({ status: 404, mayHaveActed: 'no' });
});

test('a process that does not know the session has begun nothing, although it was sent the request at once', async () => {
  const outcome = { type: 'unknown', problem: 'p', isConfirmed: true } as const;
  expect(await serve('POST', outcome)).toEqual({ status: 404, mayHaveActed: 'no' });
});
