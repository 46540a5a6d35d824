import { describe, expect, test } from 'vitest';
import type { CallReply } from '../../../../src/model/request.ts';
import { RemoteLeg } from '../../../../src/replicas/relay/remote-leg.ts';
import { readLine } from '../../../../src/replicas/relay/messages.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

const ANSWER: CallReply = { kind: 'result', result: { content: [] } };
/** A reply within this time needs no sign of life. */
const QUICK_REPLY_MS = 50;
const MIB = 1024 * 1024;
const readRelayLines = (text: string) => text.split('\n').slice(0, -1).map(readLine);

/** The other replica: takes nothing before it is told to. */
function reader() {
  const clock = new ManualClock();
  const posted: string[] = [];
  const taking = Promise.withResolvers<void>();
  const leg = new RemoteLeg((line) => {
    posted.push(line);
    return taking.promise;
  }, clock);
  return { clock, posted, leg, take: taking.resolve, leave: taking.reject };
}

describe('a leg whose client waits elsewhere', () => {
  test('is told one thing after the other, and the outcome at last', async () => {
    const { leg, posted, take, clock } = reader();
    leg.begin();
    clock.advance(QUICK_REPLY_MS);
    leg.notify('first', {});
    leg.notify('second', {});
    const finished = leg.finish(ANSWER);
    expect(posted, 'nothing before what came first was taken').toEqual(['']);
    take();
    await finished;
    expect(readRelayLines(posted.join(''))).toEqual([
      { type: 'notification', method: 'first', params: {} },
      { type: 'notification', method: 'second', params: {} },
      { type: 'reply', reply: ANSWER },
    ]);
    expect(leg.closed.aborted).toBe(false);
  });

  test('gets what waits in few messages of some size', async () => {
    const { leg, posted, take } = reader();
    leg.begin();
    for (let count = 0; count < 40_000; count += 1) leg.notify('log', { data: 'x'.repeat(80) });
    take();
    await leg.finish(ANSWER);
    expect(readRelayLines(posted.join(''))).toHaveLength(40_001);
    expect(posted.length).toBeLessThan(10);
    for (const letter of posted) expect(letter.length).toBeLessThanOrEqual(MIB);
  });

  // Rule relay-12.
  test('is behind while more than 1 MiB waits for it, and gets everything', async () => {
    const { leg, posted, take } = reader();
    leg.begin();
    const params = { data: 'x'.repeat(MIB / 2) };
    leg.notify('log', params);
    expect(leg.backlog).toBeNull();
    leg.notify('log', params);
    const { backlog } = leg;
    expect(backlog).not.toBeNull();
    leg.notify('log', params);
    take();
    await backlog;
    expect(leg.backlog).toBeNull();
    await leg.finish(ANSWER);
    expect(readRelayLines(posted.join(''))).toHaveLength(3 + 1);
  });

  // Rule relay-12.
  test('keeps nobody waiting for it once it has its outcome, or has gone', async () => {
    const params = { data: 'x'.repeat(2 * MIB) };
    const [answered, gone] = [reader(), reader()];
    for (const { leg } of [answered, gone]) leg.notify('log', params);
    const backlogs = [answered.leg.backlog, gone.leg.backlog].filter((backlog) => backlog !== null);
    expect(backlogs).toHaveLength(2);
    void answered.leg.finish(ANSWER);
    gone.leg.close();
    await Promise.all(backlogs);
    expect([answered.leg.backlog, gone.leg.backlog]).toEqual([null, null]);
  });

  test('that has gone is told nothing more', async () => {
    const { leg, posted, take, clock } = reader();
    leg.begin();
    clock.advance(QUICK_REPLY_MS);
    leg.notify('log', {});
    leg.close();
    take();
    await leg.finish(ANSWER);
    expect(posted).toEqual(['']);
  });

  test('may be told any amount that it takes', async () => {
    const { leg, posted, take } = reader();
    take();
    const params = { data: 'x'.repeat(5 * MIB) };
    for (let count = 0; count < 5; count += 1) {
      leg.notify('log', params);
      await new Promise(setImmediate);
    }
    await leg.finish(ANSWER);
    expect(leg.closed.aborted).toBe(false);
    expect(posted).toHaveLength(6);
  });

  test('gets an outcome of any length', async () => {
    const { leg, posted, take } = reader();
    const finished = leg.finish({ kind: 'result', result: { text: 'x'.repeat(9 * MIB) } });
    take();
    await finished;
    expect(posted[0]?.length).toBeGreaterThan(9 * MIB);
  });

  test('is gone when its replica is', async () => {
    const { leg, leave, clock } = reader();
    leg.begin();
    clock.advance(QUICK_REPLY_MS);
    leave(new Error('gone'));
    await expect.poll(() => leg.closed.aborted).toBe(true);
    await leg.finish(ANSWER);
  });

  test('gets no heartbeat if the outcome comes within 50 ms', async () => {
    const { leg, posted, clock, take } = reader();
    leg.begin();
    clock.advance(QUICK_REPLY_MS - 1);
    take();
    await leg.finish(ANSWER);
    expect(readRelayLines(posted.join(''))).toEqual([{ type: 'reply', reply: ANSWER }]);
    expect(clock.pending).toBe(0);
  });

  test('gets heartbeats while nothing else waits for it', async () => {
    const { leg, posted, clock, take } = reader();
    leg.begin();
    clock.advance(60_000);
    take();
    await new Promise(setImmediate);
    expect(posted).toEqual(['']);
    clock.advance(500);
    await new Promise(setImmediate);
    expect(posted).toEqual(['', '']);
    await leg.finish(ANSWER);
    expect(clock.pending).toBe(0);
  });
});
