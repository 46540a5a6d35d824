/** The way of a call through the room, with a server that the test plays. */
import { describe, expect, test } from 'vitest';
import type { Directory } from '../../../src/model/store.ts';
import { serverRequestId } from '../../../src/protocol/ids.ts';
import type { Sealer, UnsealedPointer } from '../../../src/seal/seal.ts';
import {
  callsTestbed,
  FIRST,
  inputRequestsOf,
  LIMITS,
  openSealer,
  requestStateOf,
  RESULT,
  settled,
  waitingClient,
} from '../../fixtures/calls-testbed.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

test('a client that leaves while its tool is looked up leaves no call behind', async () => {
  const client = waitingClient();
  const { call, capacity, server, clock } = callsTestbed({
    mayReplay: async () => {
      client.leave();
      return true;
    },
  });
  const reply = await call(client.waiter).reply;
  expect(reply).toMatchObject({ failure: { error: { data: { reason: 'cancelled' } } } });
  expect(capacity.running).toBe(0);
  expect(clock.pending).toBe(0);
  expect(server.did).toEqual([]);
});

test('between the effect that posts an answer and the session there is one function', async () => {
  const { call, retry, server, clock } = callsTestbed();
  const { reply } = call();
  await settled();
  server.asks(1);
  clock.advance(LIMITS.batchWindowMs);
  const asked = await reply;
  const retried = retry(asked, { 'elicitation-1': { action: 'accept', content: {} } });
  await settled();
  const frames = server.answerStack.split('\n').slice(2);
  const functions = frames.map((frame) => /at (?:async )?([^\s]+)/.exec(frame)?.[1]);
  expect(functions.slice(0, 2)).toEqual(['postAnswers', 'carryOut']);
  server.replies();
  expect(await retried).toMatchObject({ kind: 'result' });
});

// Rule shown-3.
describe('a question that comes before the response to its call, which a busy server begins later', () => {
  test('waits for it if the client wants notifications, so that none of them comes too late', async () => {
    const { calls, server, clock } = callsTestbed();
    const begun = Promise.withResolvers<void>();
    server.accepted = begun.promise;
    const notified: string[] = [];
    const waiter = {
      ...waitingClient().waiter,
      notify: (method: string) => void notified.push(method),
    };
    const reply = calls.serve({ ...FIRST, progressToken: 'fifty' }, waiter);
    await settled();
    server.asks(1);
    await settled();
    clock.advance(LIMITS.batchWindowMs);
    server.says.notified('notifications/progress', { progress: 50 });
    expect(notified).toEqual(['notifications/progress']);
    begun.resolve();
    await settled();
    clock.advance(LIMITS.batchWindowMs);
    expect(requestStateOf(await reply)).toEqual(expect.any(String));
  });

  test('waits for 50 ms at most', async () => {
    const { calls, server, clock } = callsTestbed();
    server.accepted = new Promise(() => {});
    const reply = calls.serve({ ...FIRST, progressToken: 'fifty' }, waitingClient().waiter);
    await settled();
    server.asks(1);
    clock.advance(50);
    clock.advance(LIMITS.batchWindowMs);
    expect(requestStateOf(await reply)).toEqual(expect.any(String));
  });

  test.each([
    { reattach: true, waits: 'waits for it if another replica can resume the call only then' },
    { reattach: false, waits: 'does not wait for that if no replica resumes calls' },
  ])('$waits', async ({ reattach }) => {
    const sealer = openSealer();
    const pointers: UnsealedPointer[] = [];
    const seal: Sealer['seal'] = (pointer) => {
      pointers.push(pointer);
      return sealer.seal(pointer);
    };
    const { call, server, clock } = callsTestbed({ sealer: { ...sealer, seal }, reattach });
    const begun = Promise.withResolvers<void>();
    server.accepted = begun.promise;
    server.numbersEvents = true;
    const { reply } = call();
    await settled();
    server.asks(1);
    await settled();
    clock.advance(LIMITS.batchWindowMs);
    server.keepsEvents();
    begun.resolve();
    await settled();
    clock.advance(LIMITS.batchWindowMs);
    await reply;
    const points = pointers.map(({ continuation }) => continuation?.resume?.lastEventId ?? null);
    expect(points).toEqual([reattach ? 'event' : null]);
  });

  test('does not come if the server takes it back meanwhile', async () => {
    const { calls, server, clock } = callsTestbed();
    const begun = Promise.withResolvers<void>();
    server.accepted = begun.promise;
    const reply = calls.serve({ ...FIRST, progressToken: 'fifty' }, waitingClient().waiter);
    await settled();
    server.asks(1);
    server.says.withdrawn(serverRequestId(1));
    begun.resolve();
    await settled();
    clock.advance(LIMITS.batchWindowMs);
    server.replies();
    expect(await reply).toMatchObject({ kind: 'result', result: RESULT });
  });
});

test.each([null, 'fifty'])(
  'a question with the id of one that the server took back is asked (progress token: %j)',
  async (progressToken) => {
    const { calls, server, clock } = callsTestbed();
    const reply = calls.serve({ ...FIRST, progressToken }, waitingClient().waiter);
    await settled();
    server.asks(1);
    await settled();
    server.says.withdrawn(serverRequestId(1));
    server.asks(1);
    await settled();
    clock.advance(LIMITS.batchWindowMs);
    expect(requestStateOf(await reply)).toEqual(expect.any(String));
  },
);

// Rule shown-8.
test('a question that is taken back while the answer that came before it is on its way does no harm', async () => {
  const { calls, server } = callsTestbed({
    mayReplay: () => true,
  });
  const inputResponses = { name: { action: 'accept', content: {} } };
  const reply = calls.serve({ ...FIRST, inputResponses }, waitingClient().waiter);
  await settled();
  const id = serverRequestId('name');
  const schema = { type: 'object', properties: {} };
  const escaped: unknown[] = [];
  const note = (error: unknown) => void escaped.push(error);
  process.on('unhandledRejection', note);
  stopAfterTest(async () => void process.off('unhandledRejection', note));
  server.says.asked(id, 'elicitation/create', { message: 'Name?', requestedSchema: schema });
  server.says.withdrawn(id);
  await settled();
  // What nobody catches ends the process.
  expect(escaped).toEqual([]);
  expect(server.did).toContain('respond name');
  server.replies();
  expect(await reply).toMatchObject({ kind: 'result', result: RESULT });
});

describe.each([null, 'fifty'])(
  'a question that just came (progress token: %j)',
  (progressToken) => {
    const asking = async () => {
      const testbed = callsTestbed();
      const client = waitingClient();
      const reply = testbed.calls.serve({ ...FIRST, progressToken }, client.waiter);
      await settled();
      return { ...testbed, client, reply };
    };

    test('counts for the limit of open questions', async () => {
      const { server, clock, reply } = await asking();
      for (let id = 1; id <= LIMITS.maxOpenQuestions + 1; id += 1) server.asks(id);
      await settled();
      expect(server.did.slice(2)).toEqual([`respond ${LIMITS.maxOpenQuestions + 1}`]);
      clock.advance(LIMITS.batchWindowMs);
      const shown = Object.keys(inputRequestsOf(await reply));
      expect(shown).toHaveLength(LIMITS.maxShownQuestions);
    });

    test('is answered if the server ends the call without an answer', async () => {
      const { server, reply } = await asking();
      server.asks(1);
      server.replies();
      expect(await reply).toMatchObject({ kind: 'result', result: RESULT });
      await settled();
      expect(server.did.slice(2)).toEqual(['respond 1', 'give back']);
    });

    describe('in the second round', () => {
      const askingAgain = async () => {
        const testbed = await asking();
        const { server, calls, clock, reply } = testbed;
        server.asks(1);
        await settled();
        clock.advance(LIMITS.batchWindowMs);
        const inputResponses = { 'elicitation-1': { action: 'accept', content: {} } };
        const requestState = requestStateOf(await reply);
        const client = waitingClient();
        const retry = { ...FIRST, progressToken, inputResponses, requestState };
        const retried = calls.serve(retry, client.waiter);
        await settled();
        server.asks(2);
        return { ...testbed, client, retried };
      };

      test('is answered if the server ends the call without an answer', async () => {
        const { server, retried } = await askingAgain();
        server.replies();
        expect(await retried).toMatchObject({ kind: 'result', result: RESULT });
        await settled();
        expect(server.did.slice(2)).toEqual(['respond 1', 'respond 2', 'give back']);
      });

      test('is answered if the client leaves, and the server ends the call meanwhile', async () => {
        const { server, client } = await askingAgain();
        client.leave();
        server.replies();
        await settled();
        expect(server.did.slice(2)).toEqual(['respond 1', 'cancel', 'respond 2', 'give back']);
      });
    });

    test('is answered if the client has left, and the store is still asked whose call it is', async () => {
      const asked = Promise.withResolvers<null>();
      const directory: Partial<Directory> = { holderOf: () => asked.promise };
      const { server, calls } = callsTestbed({ directory: directory as Directory });
      const client = waitingClient();
      void calls.serve({ ...FIRST, progressToken }, client.waiter);
      await settled();
      client.leave();
      server.asks(1);
      asked.resolve(null);
      await settled();
      expect(server.did.slice(2)).toEqual(['cancel', 'respond 1']);
    });

    test('is answered after the cancellation if the client leaves', async () => {
      const { server, client, reply } = await asking();
      server.asks(1);
      client.leave();
      await reply;
      await settled();
      expect(server.did.slice(2)).toEqual(['cancel', 'respond 1']);
    });
  },
);
