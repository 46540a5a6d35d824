/** What becomes of a parked call when its process stops, and of the retry that comes back to that process. */
import { describe, expect, test } from 'vitest';
import type { Directory } from '../../../src/model/store.ts';
import { UnsealablePointer } from '../../../src/seal/seal.ts';
import {
  callsTestbed,
  LIMITS,
  openSealer,
  settled,
  type CallsTestbed,
} from '../../fixtures/calls-testbed.ts';

const ACCEPT = { 'elicitation-1': { action: 'accept', content: {} } };

/** A call that is parked, in front of a server that keeps its events. */
async function parkedCall(options: Parameters<typeof callsTestbed>[0] = {}) {
  const testbed = callsTestbed(options);
  const { clock, server } = testbed;
  const { reply } = testbed.call();
  await settled();
  server.keepsEvents();
  server.asks(7);
  clock.advance(LIMITS.batchWindowMs);
  return { ...testbed, asked: await reply };
}

/** Nobody else could resume the call: `drain.parked` keeps it, and its end cancels it. */
async function expectKeptAndCancelled({ calls, server, clock }: CallsTestbed): Promise<void> {
  expect(calls.callsOnlyHere).toBe(1);
  calls.endAll();
  await settled();
  clock.advance(LIMITS.cancelGraceMs);
  await settled();
  expect(server.did).toEqual(['lease', 'call', 'cancel', 'respond 7', 'end']);
}

describe('a parked call whose process stops', () => {
  // Rule drain-4.
  test('is left to the server that keeps it, and is not resumed by the process that stops', async () => {
    const { calls, server, asked, retry } = await parkedCall();
    expect(calls.callsOnlyHere).toBe(0);
    calls.endAll();
    await settled();
    expect(server.did).toEqual(['lease', 'call', 'leave']);
    const data = { reason: 'stopping', mayHaveActed: 'yes', retryable: true };
    expect(await retry(asked, ACCEPT)).toMatchObject({ failure: { error: { data } } });
    expect(server.did).toEqual(['lease', 'call', 'leave']);
  });

  // Rules drain-5, metrics-5.
  test('is kept as long as the drain allows, and then cancelled, where no process may resume it', async () => {
    const parked = await parkedCall({ reattach: false });
    await expectKeptAndCancelled(parked);
    const ms = LIMITS.batchWindowMs;
    expect(parked.named('call.ended')).toMatchObject([
      { end: 'lost', errorType: 'lost', ms, workMs: ms },
    ]);
  });

  // Rule drain-5.
  test('is cancelled when what another process needs found no room in its pointer', async () => {
    const sealer = openSealer();
    const parked = await parkedCall({
      sealer: {
        ...sealer,
        seal: (pointer) => {
          if (pointer.continuation === undefined) return sealer.seal(pointer);
          throw new UnsealablePointer('pointer_too_large', 'too large');
        },
      },
    });
    await expectKeptAndCancelled(parked);
  });
});

describe('a released call whose process stops', () => {
  // Rule drain-4.
  test('is left to the server that keeps it', async () => {
    const { calls } = await parkedCall({ leaveWhenParked: () => true });
    expect([calls.released, calls.callsOnlyHere]).toEqual([1, 0]);
  });

  // Rule drain-5.
  test('is kept as long as the drain allows if no other process can open its pointer', async () => {
    const options = { leaveWhenParked: () => true, othersCanOpenPointers: false };
    const { calls, server, retry, asked } = await parkedCall(options);
    expect([calls.released, calls.callsOnlyHere]).toEqual([1, 1]);
    const reply = retry(asked, ACCEPT);
    await settled();
    server.says.resumed();
    await settled();
    server.replies();
    expect(await reply).toMatchObject({ kind: 'result' });
    expect([calls.released, calls.callsOnlyHere]).toEqual([0, 0]);
  });
});

/** A store that other replicas have, too. @param end how it takes an outcome */
function storeThat(end: Directory['end']): Directory {
  const store: Partial<Directory> = {
    up: true,
    claim: async () => ({ type: 'claimed', fencingToken: 1 }),
    release: async () => {},
    end,
  };
  return store as Directory;
}

describe('a call that the server has ended before its client came back', () => {
  async function endedCall(end: Directory['end']): Promise<CallsTestbed> {
    const parked = await parkedCall({ directory: storeThat(end) });
    parked.server.replies();
    await settled();
    return parked;
  }

  // Rule drain-4.
  test('is left once its outcome is in the store', async () => {
    const { promise: kept, resolve: keep } = Promise.withResolvers<'kept'>();
    const { calls } = await endedCall(() => kept);
    expect(calls.callsOnlyHere).toBe(1);
    keep('kept');
    await settled();
    expect(calls.callsOnlyHere).toBe(0);
  });

  // Rule store-3.
  test('is written to the store once for nobody and once for its client, however often a retry comes', async () => {
    let kept = 0;
    const directory = storeThat(async () => {
      kept += 1;
      return 'kept';
    });
    const { server, retry, asked } = await parkedCall({ directory });
    server.replies();
    await settled();
    expect(kept).toBe(1);
    for (const answers of [ACCEPT, ACCEPT, {}, ACCEPT]) await retry(asked, answers);
    expect(kept).toBe(2);
  });

  // Rule drain-4.
  test('is kept as long as the drain allows if the store did not take its outcome', async () => {
    const { calls } = await endedCall(() => Promise.reject(new Error('the store is unreachable')));
    expect(calls.callsOnlyHere).toBe(1);
  });
});
