/** How retries of one call that nobody holds take it up at one replica: one after the other. */
import { expect, test } from 'vitest';
import type { Call } from '../../../src/calls/call/call.ts';
import { Ladder, type Calls } from '../../../src/calls/retry-ladder.ts';
import type { CallReply, Leg } from '../../../src/model/request.ts';
import type { Directory } from '../../../src/model/directory.ts';
import { callId, sessionId, upstreamRequestId } from '../../../src/protocol/ids.ts';
import type { Pointer } from '../../../src/seal/pointer.ts';
import { RETRY } from '../../fixtures/clients/edge-request.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const ID = callId('call');
const POINTER: Pointer = {
  audience: 'fleet',
  issuedAtSeconds: 0,
  callId: ID,
  round: 1,
  owner: { id: 'dead', boot: 'dead' },
  route: 'route',
  method: 'tools/call',
  target: 'greet',
  digest: 'digest',
  principal: null,
  expiresAtSeconds: 0,
  continuation: {
    startedAtMs: 0,
    questions: [],
    keys: { asked: 0, counts: {} },
    resume: {
      sessionId: sessionId('session'),
      revision: '2025-11-25',
      upstreamId: upstreamRequestId(1),
      lastEventId: 'event',
    },
    replay: null,
  },
};
const DONE: CallReply = { kind: 'result', result: { content: [] } };

/** A ladder whose store answers when the test says so, and what it did, in order. */
function stage() {
  const did: string[] = [];
  const grants: (() => void)[] = [];
  const asked: (() => void)[] = [];
  let taken: Call | undefined;
  const directory: Pick<Directory, 'claim' | 'outcomeOf'> = {
    claim: async () => {
      did.push('claim');
      asked.shift()?.();
      await new Promise<void>((resolve) => grants.push(resolve));
      return { type: 'claimed', epoch: 1 };
    },
    outcomeOf: async () => null,
  };
  const calls: Calls = {
    find: () => taken,
    claimed: () => void did.push('claimed'),
    unclaim: () => void did.push('unclaim'),
    adopt: () => {
      did.push('adopt');
      const call: Pick<Call, 'isHeldElsewhere' | 'isLost' | 'isBroken'> = {
        isHeldElsewhere: false,
        isLost: false,
        isBroken: false,
      };
      taken = call as Call;
      return { call: taken, answer: Promise.resolve(DONE) };
    },
    retry: async () => {
      did.push('retry');
      return DONE;
    },
    replay: async () => DONE,
  };
  const ladder = new Ladder({
    route: 'route',
    boot: 'here',
    calls,
    relay: null,
    directory: directory as Directory,
    claimMs: 1,
    reattach: true,
    clock: new ManualClock(),
    log: { event: () => {} },
  });
  const come = () => {
    const leaving = new AbortController();
    const leg: Leg = { closed: leaving.signal, backlog: null, notify: () => {} };
    return { answer: ladder.climb(POINTER, RETRY, leg), leave: () => leaving.abort() };
  };
  /** Resolves when the store is asked for a claim. */
  const isAsked = () => new Promise<void>((resolve) => asked.push(resolve));
  return { did, come, isAsked, grant: () => grants.shift()?.() };
}

// Rule reattach-5: Several retries at one replica take a call up one after the other: the first one does, the
// others join it.
test('a retry whose client leaves gives back its claim before another one asks for it', async () => {
  const { did, come, isAsked, grant } = stage();
  let claiming = isAsked();
  const first = come();
  await claiming;
  first.leave();
  claiming = isAsked();
  const second = come();
  // Time enough for it to ask, if it did not wait for its turn.
  await new Promise(setImmediate);
  grant();
  await claiming;
  grant();
  expect(await first.answer).toMatchObject({ kind: 'failed' });
  expect(await second.answer).toEqual(DONE);
  expect(did).toEqual(['claim', 'claimed', 'unclaim', 'claim', 'claimed', 'adopt']);
});

// Rule reattach-5.
test('a retry that comes while another one takes the call up joins it, with no claim of its own', async () => {
  const { did, come, isAsked, grant } = stage();
  const claiming = isAsked();
  const first = come();
  await claiming;
  const second = come();
  grant();
  expect(await Promise.all([first.answer, second.answer])).toEqual([DONE, DONE]);
  expect(did).toEqual(['claim', 'claimed', 'adopt', 'retry']);
});
