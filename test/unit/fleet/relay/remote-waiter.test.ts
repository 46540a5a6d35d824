import { describe, expect, test } from 'vitest';
import type { CallReply } from '../../../../src/model/request.ts';
import { RemoteWaiter } from '../../../../src/fleet/relay/remote-waiter.ts';
import { readLine } from '../../../../src/fleet/relay/messages.ts';
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
  const waiter = new RemoteWaiter((line) => {
    posted.push(line);
    return taking.promise;
  }, clock);
  return { clock, posted, waiter, take: taking.resolve, leave: taking.reject };
}

describe('a waiter whose client waits elsewhere', () => {
  test('is told one thing after the other, and the outcome at last', async () => {
    const { waiter, posted, take, clock } = reader();
    waiter.begin();
    clock.advance(QUICK_REPLY_MS);
    waiter.notify('first', {});
    waiter.notify('second', {});
    const finished = waiter.finish(ANSWER);
    expect(posted, 'nothing before what came first was taken').toEqual(['']);
    take();
    await finished;
    expect(readRelayLines(posted.join(''))).toEqual([
      { type: 'notification', method: 'first', params: {} },
      { type: 'notification', method: 'second', params: {} },
      { type: 'reply', reply: ANSWER },
    ]);
    expect(waiter.closed.aborted).toBe(false);
  });

  test('gets what waits in few messages of some size', async () => {
    const { waiter, posted, take } = reader();
    waiter.begin();
    for (let count = 0; count < 40_000; count += 1) waiter.notify('log', { data: 'x'.repeat(80) });
    take();
    await waiter.finish(ANSWER);
    expect(readRelayLines(posted.join(''))).toHaveLength(40_001);
    expect(posted.length).toBeLessThan(10);
    for (const letter of posted) expect(letter.length).toBeLessThanOrEqual(MIB);
  });

  // Rule relay-13.
  test('is behind while more than 1 MiB waits for it, and gets everything', async () => {
    const { waiter, posted, take } = reader();
    waiter.begin();
    const params = { data: 'x'.repeat(MIB / 2) };
    waiter.notify('log', params);
    expect(waiter.backlog).toBeNull();
    waiter.notify('log', params);
    const { backlog } = waiter;
    expect(backlog).not.toBeNull();
    waiter.notify('log', params);
    take();
    await backlog;
    expect(waiter.backlog).toBeNull();
    await waiter.finish(ANSWER);
    expect(readRelayLines(posted.join(''))).toHaveLength(3 + 1);
  });

  // Rule relay-13.
  test('keeps nobody waiting for it once it has its outcome, or has gone', async () => {
    const params = { data: 'x'.repeat(2 * MIB) };
    const [answered, gone] = [reader(), reader()];
    for (const { waiter } of [answered, gone]) waiter.notify('log', params);
    const backlogs = [answered.waiter.backlog, gone.waiter.backlog].filter(
      (backlog) => backlog !== null,
    );
    expect(backlogs).toHaveLength(2);
    void answered.waiter.finish(ANSWER);
    gone.waiter.close();
    await Promise.all(backlogs);
    expect([answered.waiter.backlog, gone.waiter.backlog]).toEqual([null, null]);
  });

  test('that has gone is told nothing more', async () => {
    const { waiter, posted, take, clock } = reader();
    waiter.begin();
    clock.advance(QUICK_REPLY_MS);
    waiter.notify('log', {});
    waiter.close();
    take();
    await waiter.finish(ANSWER);
    expect(posted).toEqual(['']);
  });

  test('may be told any amount that it takes', async () => {
    const { waiter, posted, take } = reader();
    take();
    const params = { data: 'x'.repeat(5 * MIB) };
    for (let count = 0; count < 5; count += 1) {
      waiter.notify('log', params);
      await new Promise(setImmediate);
    }
    await waiter.finish(ANSWER);
    expect(waiter.closed.aborted).toBe(false);
    expect(posted).toHaveLength(6);
  });

  test('gets an outcome of any length', async () => {
    const { waiter, posted, take } = reader();
    const finished = waiter.finish({ kind: 'result', result: { text: 'x'.repeat(9 * MIB) } });
    take();
    await finished;
    expect(posted[0]?.length).toBeGreaterThan(9 * MIB);
  });

  test('is gone when its replica is', async () => {
    const { waiter, leave, clock } = reader();
    waiter.begin();
    clock.advance(QUICK_REPLY_MS);
    leave(new Error('gone'));
    await expect.poll(() => waiter.closed.aborted).toBe(true);
    await waiter.finish(ANSWER);
  });

  test('gets no heartbeat if the outcome comes within 50 ms', async () => {
    const { waiter, posted, clock, take } = reader();
    waiter.begin();
    clock.advance(QUICK_REPLY_MS - 1);
    take();
    await waiter.finish(ANSWER);
    expect(readRelayLines(posted.join(''))).toEqual([{ type: 'reply', reply: ANSWER }]);
    expect(clock.pending).toBe(0);
  });

  test('gets heartbeats while nothing else waits for it', async () => {
    const { waiter, posted, clock, take } = reader();
    waiter.begin();
    clock.advance(60_000);
    take();
    await new Promise(setImmediate);
    expect(posted).toEqual(['']);
    clock.advance(500);
    await new Promise(setImmediate);
    expect(posted).toEqual(['', '']);
    await waiter.finish(ANSWER);
    expect(clock.pending).toBe(0);
  });
});
