import { expect, test } from 'vitest';
import { UpstreamFailure } from '../../../../src/model/upstream-failure.ts';
import { OneSession } from '../../../../src/upstream/quirks/one-session.ts';
import type { Session } from '../../../../src/upstream/session/session.ts';

const REFUSED = new UpstreamFailure('upstream_unavailable', 'HTTP 400', {
  mayHaveActed: false,
  httpStatus: 400,
});

const BUSY = new UpstreamFailure('upstream_busy', 'HTTP 503', { mayHaveActed: false });

const BROKEN = new UpstreamFailure('upstream_unavailable', '', { mayHaveActed: false });

function stage() {
  const causes: string[] = [];
  const server = { broken: 0 };
  const stays: object[] = [];
  const one = new OneSession({
    isConfigured: false,
    broken: () => server.broken,
    replies: async (session) => stays.includes(session),
    onCertain: (cause) => causes.push(cause),
  });
  const open = async () => {
    const session = { dead: false };
    await one.opened(one.begin(), session as unknown as Session);
    return session;
  };
  const refuse = () => one.failed(one.begin(), REFUSED);
  /** @param beside the other session, if the server still replies in it */
  const beBusy = (beside?: object) => {
    if (beside !== undefined) stays.push(beside);
    return one.failed(one.begin(), BUSY);
  };
  const crash = async (session: { dead: boolean }) => {
    const opening = one.begin();
    session.dead = true;
    server.broken += 1;
    await one.failed(opening, BROKEN);
  };
  /** The connection of a session that is being opened breaks, and nothing else. */
  const interrupt = async (session: object) => {
    const opening = one.begin();
    stays.push(session);
    server.broken += 1;
    await one.failed(opening, BROKEN);
  };
  return { one, causes, open, refuse, beBusy, crash, interrupt };
}

test('a refusal beside another session is tried again alone, and tells only then', async () => {
  const { one, causes, open, refuse } = stage();
  const first = await open();
  await refuse();
  expect([one.isOne, causes]).toEqual([true, []]);
  first.dead = true;
  await open();
  expect([one.isOne, causes]).toEqual([true, ['refused']]);
});

test('a server that is busy once, or in its other session as well, is not suspected', async () => {
  const { one, open, beBusy } = stage();
  const first = await open();
  await beBusy(first);
  expect(one.isOne).toBe(false);
  first.dead = true;
  await open();
  await beBusy();
  await beBusy();
  expect(one.isOne).toBe(false);
});

test('a server that is busy twice for another session alone may have one only', async () => {
  const { one, open, beBusy } = stage();
  const first = await open();
  await beBusy(first);
  await beBusy(first);
  expect(one.isOne).toBe(true);
});

test('JSON of a server that starts is no refusal, for which another session would be ended', async () => {
  const { one, open } = stage();
  await open();
  const details = { mayHaveActed: true, isForReply: true, isOtherJson: true };
  await one.failed(
    one.begin(),
    new UpstreamFailure('upstream_protocol_error', 'starting', details),
  );
  expect(one.isOne).toBe(false);
});

test('a caller that is refused in any case does not make it a server with one session', async () => {
  const { one, causes, open, refuse } = stage();
  for (let trial = 1; trial <= 3; trial += 1) {
    const first = await open();
    await refuse();
    expect(one.isOne).toBe(true);
    first.dead = true;
    await refuse();
    expect(one.isOne).toBe(false);
  }
  await open();
  await refuse();
  expect([one.isOne, causes]).toEqual([false, []]);
});

test('a server that had two sessions is no longer suspected', async () => {
  const { one, open, refuse, crash } = stage();
  const first = await open();
  const second = await open();
  second.dead = true;
  await refuse();
  await crash(first);
  await crash(await open());
  expect(one.isOne).toBe(false);
});

test('connections that break once are a restart, and those that break twice a server with one session', async () => {
  const { one, causes, open, crash } = stage();
  await crash(await open());
  expect(one.isOne).toBe(false);
  await crash(await open());
  expect([one.isOne, causes]).toEqual([true, ['crashed']]);
});

test('a refusal of the first session says nothing', async () => {
  const { one, refuse } = stage();
  await refuse();
  expect(one.isOne).toBe(false);
});

test('connections that break while the other session lives say nothing', async () => {
  const { one, open, interrupt } = stage();
  const first = await open();
  await interrupt(first);
  await interrupt(first);
  expect(one.isOne).toBe(false);
});
