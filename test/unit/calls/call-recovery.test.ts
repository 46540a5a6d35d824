/** How retries of one call that nobody holds resume it at one replica: one after the other. */
import { expect, test } from 'vitest';
import { Ownership } from '../../../src/fleet/ownership.ts';
import type { Store } from '../../../src/model/store.ts';
import { COORDINATION_UNAVAILABLE, STOPPING_FOR_RETRY } from '../../../src/model/failures.ts';
import { callId } from '../../../src/protocol/ids.ts';
import type { Sealer } from '../../../src/seal/seal.ts';
import {
  callsTestbed,
  inputRequestsOf,
  openSealer,
  RESULT,
  settled,
  waitingClient,
} from '../../fixtures/calls-testbed.ts';
import { RETRY } from '../../fixtures/clients/edge-request.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { POINTER, POINTER_TO_ASKED } from '../../fixtures/pointers-of-dead-replicas.ts';

/** A replica whose store answers when the test says so, and what it asked of store and server, in order. */
function replicaWithStore() {
  const grants: (() => void)[] = [];
  const requests: (() => void)[] = [];
  const store: Partial<Store> = {
    ...{ up: true, term: 1 },
    requireComplete: async () => {},
    claim: async () => {
      server.did.push('claim');
      requests.shift()?.();
      await new Promise<void>((resolve) => grants.push(resolve));
      return { type: 'claimed', fencingToken: 1 };
    },
    claimAndRead: async (id, _part, ttlMs) => ({
      claim: await store.claim!(id, ttlMs),
      kept: null,
    }),
    release: async () => void server.did.push('unclaim'),
    read: async () => null,
  };
  const { calls, server } = callsTestbed({
    ownership: new Ownership(store as Store, new ManualClock(), 'here'),
    sealer: { seal: () => 'pointer', open: () => POINTER },
  });
  const retry = () => {
    const { waiter, leave } = waitingClient();
    return { reply: calls.serve(RETRY, waiter), leave };
  };
  /** Resolves when the store is asked for a claim. */
  const claimRequest = () => new Promise<void>((resolve) => requests.push(resolve));
  const finish = async () => {
    await settled();
    server.says.resumed();
    await settled();
    server.replies();
  };
  return { calls, server, retry, claimRequest, finish, grant: () => grants.shift()?.() };
}

// Rule retries-2.
test('a retry whose client leaves gives back its claim before another one asks for it', async () => {
  const { server, retry, claimRequest, finish, grant } = replicaWithStore();
  let claiming = claimRequest();
  const first = retry();
  await claiming;
  first.leave();
  claiming = claimRequest();
  const second = retry();
  // Time enough for it to ask, if it did not wait for its turn.
  await settled();
  grant();
  await claiming;
  grant();
  await finish();
  expect(await first.reply).toMatchObject({ kind: 'failed' });
  expect(await second.reply).toMatchObject({ result: RESULT });
  expect(server.did.slice(0, 5)).toEqual(['claim', 'unclaim', 'claim', 'adopt', 'resume']);
});

// Rule retries-2.
test('a retry that comes while another one takes the call up joins it, with no claim of its own', async () => {
  const { server, retry, claimRequest, finish, grant } = replicaWithStore();
  const claiming = claimRequest();
  const first = retry();
  await claiming;
  const second = retry();
  grant();
  await finish();
  const replies = await Promise.all([first.reply, second.reply]);
  expect(replies).toMatchObject([{ result: RESULT }, { result: RESULT }]);
  expect(server.did).toEqual(['claim', 'adopt', 'resume', 'give back']);
});

// Rule retries-2.
test('a relayed retry whose client leaves before the call is begun gives back its claim', async () => {
  const { calls, server, claimRequest, grant } = replicaWithStore();
  const claiming = claimRequest();
  const { waiter, leave } = waitingClient();
  const serving = calls.serveRelayed(RETRY, waiter);
  await claiming;
  grant();
  expect(await serving).not.toBeNull();
  leave();
  await settled();
  expect(server.did).toEqual(['claim', 'unclaim']);
});

// Rule reattach-2.
test('answers wait for a stream that broke again while the stream beside it was being opened', async () => {
  const opened = Promise.withResolvers<void>();
  const { calls, server } = callsTestbed({
    sealer: { seal: () => 'pointer', open: () => POINTER_TO_ASKED },
  });
  server.standaloneOpen = opened.promise;
  const inputResponses = { 'roots-1': { roots: [] } };
  const reply = calls.serve({ ...RETRY, inputResponses }, waitingClient().waiter);
  await settled();
  server.says.resumed();
  server.says.interrupted();
  opened.resolve();
  await settled();
  expect(server.did).toEqual(['adopt', 'resume']);
  server.says.resumed();
  await settled();
  expect(server.did).toEqual(['adopt', 'resume', 'respond 7']);
  server.replies();
  expect(await reply).toMatchObject({ result: RESULT });
});

/** A call that has asked, whose process has found out that another one has the home of its session. */
async function askedAtLostHome({ isResumable }: { readonly isResumable: boolean }) {
  const sealer = openSealer();
  const open: Sealer['open'] = (state, expected) =>
    state === NEXT
      ? { ...POINTER, callId: callId('call-1'), round: 2 }
      : sealer.open(state, expected);
  const { calls, clock, server, call, retry } = callsTestbed({ sealer: { ...sealer, open } });
  if (isResumable) server.keepsEvents();
  const { reply } = call();
  await settled();
  server.asks(7);
  await settled();
  clock.advance(1);
  const asked = await reply;
  const [key = ''] = Object.keys(inputRequestsOf(asked));
  const answers = { [key]: { action: 'accept', content: {} } };
  server.did.length = 0;
  const retryElsewhere = () =>
    calls.serve({ ...RETRY, requestState: NEXT }, waitingClient().waiter);
  return { server, answer: () => retry(asked, answers), retryElsewhere };
}

/** A pointer of the process that has the home now, to the round after that of the answers. */
const NEXT = 'of the next process';

// Rule questions-10.
test('a call is left to the process that has its home before its answer is taken', async () => {
  const { server, answer } = await askedAtLostHome({ isResumable: true });
  server.home = Promise.resolve(false);
  const reply = answer();
  await settled();
  // In this test nobody else has the home, so the call is resumed in it.
  expect(server.did).toEqual(['leave', 'adopt', 'resume']);
  server.home = null;
  server.says.resumed();
  await settled();
  expect(server.did.at(-1)).toBe('respond 7');
  server.replies();
  expect(await reply).toMatchObject({ result: RESULT });
});

// Rule questions-10.
test('a call that works is left as soon as a client brings the pointer of the process that has its home', async () => {
  const { server, answer, retryElsewhere } = await askedAtLostHome({ isResumable: true });
  const former = answer();
  await settled();
  server.home = Promise.resolve(false);
  server.did.length = 0;
  const reply = retryElsewhere();
  await settled();
  expect(await former).toMatchObject({ kind: 'failed', failure: COORDINATION_UNAVAILABLE });
  // In this test nobody else has the home, so the call is resumed in it.
  expect(server.did).toEqual(['leave', 'adopt', 'resume']);
  server.replies();
  expect(await reply).toMatchObject({ result: RESULT });
});

// Rule questions-10.
test('an answer that waited for the stream is not sent where the home is lost meanwhile', async () => {
  const { server, answer } = await askedAtLostHome({ isResumable: true });
  server.says.interrupted();
  const reply = answer();
  await settled();
  server.home = Promise.resolve(false);
  server.says.resumed();
  expect(await reply).toMatchObject({ kind: 'failed', failure: COORDINATION_UNAVAILABLE });
  expect(server.did).toEqual(['leave']);
});

// Rule questions-10.
test.each([
  ['the server does not keep it', false, Promise.resolve(false)],
  ['the home is still here', true, Promise.resolve(true)],
])('a call is served where it is if %s', async (_why, isResumable, home) => {
  const { server, answer } = await askedAtLostHome({ isResumable });
  server.home = home;
  const reply = answer();
  await settled();
  expect(server.did).toEqual(['respond 7']);
  server.replies();
  expect(await reply).toMatchObject({ result: RESULT });
});

// Rule retries-2.
test('a call is not taken up whose claim is granted when the process has ended its calls', async () => {
  const { calls, server, retry, claimRequest, grant } = replicaWithStore();
  const claiming = claimRequest();
  const { reply } = retry();
  await claiming;
  calls.endAll();
  grant();
  expect(await reply).toMatchObject({ kind: 'failed', failure: STOPPING_FOR_RETRY });
  expect(server.did).toEqual(['claim', 'unclaim']);
});
