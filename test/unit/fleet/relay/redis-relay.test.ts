/** Two replicas that write to each other through mailboxes: how each learns that the other is gone. */
import { describe, expect, test } from 'vitest';
import type { CallReply, Waiter } from '../../../../src/model/request.ts';
import { OpenResponses } from '../../../../src/lib/http.ts';
import { OwnerActivity } from '../../../../src/fleet/relay/liveness.ts';
import type { MessageQueue } from '../../../../src/fleet/relay/redis-queue.ts';
import { RedisRelay, type RedisRelayOptions } from '../../../../src/fleet/relay/redis-relay.ts';
import { createKeyRing } from '../../../../src/seal/key-ring.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';
import { RETRY } from '../../../fixtures/clients/edge-request.ts';

const ANSWER: CallReply = { kind: 'result', result: { content: [] } };
const OWNER = { id: 'owner', instance: 'owner' };

/** What the client of the store throws when it has no connection. */
const NOT_SENT = "Stream isn't writeable and enableOfflineQueue options is false";

/** The store: letters reach their reader at once, unless something is wrong. */
class Mail {
  readonly #readers = new Map<string, (sealed: string) => void>();
  #underWay: Promise<unknown>[] = [];
  /** Processes whose letters nobody reads any more. */
  readonly dead = new Set<string>();
  readonly full = new Set<string>();
  isAway = false;
  /** The store takes what comes, and its replies do not arrive. */
  repliesAreLost = false;
  count = 0;
  /** The test has ended, and nobody waits for letters any more. */
  isOver = false;

  boxOf(instance: string): Pick<MessageQueue, 'read' | 'push' | 'close' | 'isBehind'> {
    return {
      isBehind: false,
      read: async (letter) => void this.#readers.set(instance, letter),
      push: async (to, sealed) => {
        this.count += 1;
        if (this.isAway) throw new Error(NOT_SENT);
        if (this.full.has(to)) return false;
        const read = this.#readers.get(to);
        if (read !== undefined && !this.dead.has(to)) {
          this.#underWay.push(new Promise(setImmediate).then(() => read(sealed)));
        }
        if (this.repliesAreLost) throw new Error('Command timed out');
        return true;
      },
      close: () => {},
    };
  }

  /** Does something, and resolves when it has brought so many letters, and they were read. */
  async saw(letters: number, act: () => void): Promise<void> {
    const until = this.count + letters;
    act();
    await this.until(() => this.count >= until);
  }

  /** Lets half a second pass so many times, with the letters that each of them brings. */
  async passHalves(clock: ManualClock, halves: number, letters: number): Promise<void> {
    for (let passed = 0; passed < halves; passed += 1) {
      await this.saw(letters, () => clock.advance(500));
    }
  }

  async until(isSo: () => boolean): Promise<void> {
    while (!isSo() && !this.isOver) await new Promise(setImmediate);
    await Promise.all(this.#underWay.splice(0));
    await new Promise(setImmediate);
  }
}

/** Two replicas, and a client whose retry came to the one that does not have its call. */
async function twoReplicas() {
  const clock = new ManualClock();
  const mail = new Mail();
  stopAfterTest(async () => void (mail.isOver = true));
  const ring = createKeyRing([{ kid: 'a', secret: Buffer.alloc(32, 1) }], 'relay');
  const openResponses = new OpenResponses();
  const answer = Promise.withResolvers<CallReply>();
  const taken = Promise.withResolvers<Waiter>();
  const common = {
    ...{
      ring,
      audience: 'fleet',
      maxBodyBytes: 100_000,
      maxReplyBytes: 100_000,
      openResponses,
      clock,
    },
    owners: new OwnerActivity(clock),
  };
  const serveRelayed: RedisRelayOptions['serveRelayed'] = async (_route, _request, waiter) => ({
    begin: () => {
      taken.resolve(waiter);
      return answer.promise;
    },
    sendClientBack: () => {},
  });
  new RedisRelay({ ...common, instance: 'owner', queue: mail.boxOf('owner'), serveRelayed });
  const asking = new RedisRelay({
    ...common,
    instance: 'requester',
    queue: mail.boxOf('requester'),
    serveRelayed: async () => null,
  });
  const leaving = new AbortController();
  const told: string[] = [];
  const client: Waiter = {
    closed: leaving.signal,
    backlog: null,
    notify: (method) => told.push(method),
  };
  return {
    clock,
    mail,
    openResponses,
    told,
    relay: () => asking.for('route').relay(OWNER, RETRY, client),
    /** The client's side at the owner. */
    taken: taken.promise,
    answer: answer.resolve,
    leave: () => leaving.abort(),
  };
}

/** A retry that was relayed and is at work at its owner. */
async function relayed() {
  const replicas = await twoReplicas();
  const heard = replicas.relay();
  const waiter = await replicas.taken;
  // The retry, the question whether it counts, and its confirmation.
  await replicas.mail.until(() => replicas.mail.count === 3);
  return { ...replicas, heard, waiter };
}

/** The same, but the store was unreachable for so long that the owner was given up, and is back. */
async function givenUp() {
  const retry = await relayed();
  retry.mail.isAway = true;
  await retry.mail.passHalves(retry.clock, 6, 2);
  expect(await retry.heard).toMatchObject({ type: 'unreachable' });
  retry.mail.isAway = false;
  return retry;
}

describe('a retry that is relayed through Redis', () => {
  test('can take any time while both sides send heartbeats', async () => {
    const { clock, mail, waiter, heard, answer, openResponses } = await relayed();
    await mail.passHalves(clock, 60, 2);
    expect(waiter.closed.aborted).toBe(false);
    answer(ANSWER);
    expect(await heard).toEqual({ type: 'replied', reply: ANSWER });
    expect([openResponses.count, clock.pending]).toEqual([0, 0]);
  });

  test('has lost its client when the replica that asked says nothing for six seconds', async () => {
    const { clock, mail, waiter } = await relayed();
    mail.dead.add('requester');
    mail.dead.add('owner');
    clock.advance(5_999);
    expect(waiter.closed.aborted).toBe(false);
    clock.advance(1);
    expect(waiter.closed.aborted).toBe(true);
  });

  test('has not lost its client while the store is unreachable', async () => {
    const { clock, mail, waiter, heard } = await relayed();
    mail.isAway = true;
    await mail.passHalves(clock, 120, 2);
    expect(await heard).toMatchObject({ type: 'unreachable' });
    mail.isAway = false;
    await mail.passHalves(clock, 1, 2);
    await mail.passHalves(clock, 12, 1);
    expect(waiter.closed.aborted).toBe(false);
  });

  test('has lost its client when its mailbox stays full for half a minute', async () => {
    const { clock, mail, waiter, heard } = await relayed();
    mail.full.add('requester');
    await mail.saw(1, () => {
      waiter.notify('notifications/progress', { progressToken: 'token', progress: 1 });
    });
    const fullSinceMs = clock.now();
    // Each half second the owner tries its letter again, and the requester gives a sign of life. After ten
    // seconds without a message the requester gives the owner up, and says that its client may retry.
    await mail.passHalves(clock, 19, 2);
    await mail.passHalves(clock, 1, 3);
    expect(await heard).toMatchObject({ type: 'silent' });
    while (!waiter.closed.aborted) {
      clock.advance(100);
      await mail.until(() => true);
    }
    expect(clock.now() - fullSinceMs).toBeGreaterThanOrEqual(30_000);
  });
});

describe('a retry whose owner was given up, and whose client may retry,', () => {
  // Rule relay-3.
  test('keeps its call for half a minute, and is told nothing more', async () => {
    const { clock, mail, waiter, told } = await givenUp();
    await mail.saw(1, () => {
      waiter.notify('notifications/progress', { progressToken: 'token', progress: 1 });
    });
    // The owner hears at last that the client retries.
    await mail.passHalves(clock, 1, 2);
    await mail.passHalves(clock, 59, 1);
    expect(waiter.closed.aborted).toBe(false);
    clock.advance(500);
    expect(waiter.closed.aborted).toBe(true);
    expect(told).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  // Rule relay-2.
  test('is void when the store lost no more than its reply', async () => {
    const { clock, mail, relay, taken } = await twoReplicas();
    mail.repliesAreLost = true;
    expect(await relay()).toMatchObject({ type: 'unreachable' });
    let isCarriedOut = false;
    void taken.then(() => (isCarriedOut = true));
    mail.repliesAreLost = false;
    // The owner asks whether the retry counts, until the silence shows that nobody waits for it.
    while (clock.pending > 0) {
      clock.advance(500);
      await mail.until(() => true);
    }
    expect(isCarriedOut).toBe(false);
  });

  test('is over when the owner replies', async () => {
    const { clock, mail, answer, openResponses, told } = await givenUp();
    await mail.saw(1, () => answer(ANSWER));
    await mail.until(() => openResponses.count === 0);
    expect([clock.pending, told]).toEqual([0, []]);
  });

  test('is over when its client leaves instead, and cancels its call', async () => {
    const { clock, mail, waiter, leave, answer, openResponses } = await givenUp();
    leave();
    await mail.until(() => waiter.closed.aborted);
    // What the call ends with, which nobody reads.
    answer(ANSWER);
    await mail.until(() => openResponses.count === 0);
    expect(clock.pending).toBe(0);
  });

  test.each(['isAway', 'full'] as const)(
    'is over at once when it was not sent: %s',
    async (why) => {
      const { clock, mail, relay } = await twoReplicas();
      if (why === 'full') mail.full.add('owner');
      else mail.isAway = true;
      expect(await relay()).toMatchObject({ type: 'unreachable' });
      expect(clock.pending).toBe(0);
    },
  );
});
