/** Two replicas that write to each other through mailboxes: how each learns that the other is gone. */
import { describe, expect, test } from 'vitest';
import type { CallAnswer, EdgeRequest, Leg } from '../../../src/bridge/leg.ts';
import { OpenAnswers } from '../../../src/open-answers.ts';
import type { Mailbox } from '../../../src/relay/mailbox.ts';
import { RedisRelay, type RedisRelayOptions } from '../../../src/relay/redis-relay.ts';
import { createKeyRing } from '../../../src/seal/key-ring.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { EMPTY_PROFILE } from '../../../src/protocol/client-profile.ts';

const ANSWER: CallAnswer = { kind: 'result', result: { content: [] } };
const OWNER = { id: 'owner', boot: 'owner' };

const REQUEST: EdgeRequest = {
  method: 'tools/call',
  params: { name: 'greet' },
  forwardedMeta: {},
  profile: { ...EMPTY_PROFILE, elicitationForm: true },
  clientInfo: null,
  logLevel: null,
  progressToken: null,
  inputResponses: {},
  requestState: 'pointer',
  caller: { principalKey: 'Ada', principal: null, credentialsKey: '', headers: {} },
};

/** The store: letters reach their reader at once, unless something is wrong. */
class Mail {
  readonly #readers = new Map<string, (sealed: string) => Promise<void>>();
  #underWay: Promise<unknown>[] = [];
  /** Processes whose letters nobody reads any more. */
  readonly dead = new Set<string>();
  readonly full = new Set<string>();
  isAway = false;
  count = 0;

  boxOf(boot: string): Pick<Mailbox, 'read' | 'post' | 'close'> {
    return {
      read: async (letter) => void this.#readers.set(boot, letter),
      post: async (to, sealed) => {
        this.count += 1;
        if (this.isAway) throw new Error('no connection');
        if (this.full.has(to)) return false;
        const read = this.#readers.get(to);
        if (read !== undefined && !this.dead.has(to)) this.#underWay.push(read(sealed));
        return true;
      },
      close: () => {},
    };
  }

  /** Resolves when `letters` more were posted and read. */
  async saw(letters: number): Promise<void> {
    const until = this.count + letters;
    await this.until(() => this.count >= until);
  }

  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await new Promise(setImmediate);
    await Promise.all(this.#underWay.splice(0));
    await new Promise(setImmediate);
  }
}

/** A retry that was relayed and is at work at its owner. */
async function relayed() {
  const clock = new ManualClock();
  const mail = new Mail();
  const ring = await createKeyRing([{ kid: 'a', secret: Buffer.alloc(32, 1) }], 'relay');
  const openAnswers = new OpenAnswers();
  const answer = Promise.withResolvers<CallAnswer>();
  const taken = Promise.withResolvers<Leg>();
  const common = { ring, maxBytes: 100_000, openAnswers, clock };
  const retry: RedisRelayOptions['retry'] = async (_route, _request, leg) => {
    taken.resolve(leg);
    return { answer: answer.promise };
  };
  new RedisRelay({ ...common, boot: 'owner', mailbox: mail.boxOf('owner'), retry });
  const asking = new RedisRelay({
    ...common,
    boot: 'asker',
    mailbox: mail.boxOf('asker'),
    retry: async () => null,
  });
  const client: Leg = { closed: new AbortController().signal, notify: () => {} };
  const heard = asking.for('route').relay(OWNER, REQUEST, client);
  const leg = await taken.promise;
  await mail.until(() => mail.count === 2);
  return { clock, mail, leg, heard, answer: answer.resolve, openAnswers };
}

describe('a retry that is relayed by letters', () => {
  test('may take as long as it takes, while both sides give signs of life', async () => {
    const { clock, mail, leg, heard, answer, openAnswers } = await relayed();
    for (let halves = 0; halves < 60; halves += 1) {
      clock.advance(500);
      await mail.saw(2);
    }
    expect(leg.closed.aborted).toBe(false);
    answer(ANSWER);
    expect(await heard).toEqual({ type: 'answered', answer: ANSWER });
    expect([openAnswers.count, clock.pending]).toEqual([0, 0]);
  });

  test('has lost its client when the replica that asked says nothing for six seconds', async () => {
    const { clock, mail, leg } = await relayed();
    mail.dead.add('asker');
    mail.dead.add('owner');
    clock.advance(5_999);
    expect(leg.closed.aborted).toBe(false);
    clock.advance(1);
    expect(leg.closed.aborted).toBe(true);
  });

  test('has not lost its client while the store is away, but when nothing is heard afterwards', async () => {
    const { clock, mail, leg, heard } = await relayed();
    mail.isAway = true;
    for (let halves = 0; halves < 60; halves += 1) {
      clock.advance(500);
      await mail.saw(1);
    }
    expect(leg.closed.aborted).toBe(false);
    expect(await heard).toMatchObject({ type: 'silent' });
    mail.isAway = false;
    for (let halves = 0; halves < 13; halves += 1) {
      clock.advance(500);
      await new Promise(setImmediate);
    }
    expect(leg.closed.aborted).toBe(true);
  });

  test('has lost its client when the mailbox of the replica that asked is full', async () => {
    const { clock, mail, leg } = await relayed();
    mail.full.add('asker');
    clock.advance(500);
    await mail.until(() => leg.closed.aborted);
  });
});
