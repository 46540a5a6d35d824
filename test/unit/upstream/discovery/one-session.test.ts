import { expect, test } from 'vitest';
import { UpstreamFailure } from '../../../../src/upstream/failure.ts';
import { OneSession } from '../../../../src/upstream/discovery/one-session.ts';
import type { Session } from '../../../../src/upstream/session/session.ts';

const REFUSED = new UpstreamFailure('upstream_unavailable', 'HTTP 400', {
  mayHaveActed: false,
  httpStatus: 400,
});

function stage() {
  const causes: string[] = [];
  const server = { broken: 0 };
  const one = new OneSession({
    isConfigured: false,
    broken: () => server.broken,
    onCertain: (cause) => causes.push(cause),
  });
  const open = () => {
    const session = { dead: false };
    one.opened(one.begin(), session as unknown as Session);
    return session;
  };
  const refuse = () => one.failed(one.begin(), REFUSED);
  const crash = (session: { dead: boolean }) => {
    const opening = one.begin();
    session.dead = true;
    server.broken += 1;
    one.failed(opening, new UpstreamFailure('upstream_unavailable', '', { mayHaveActed: false }));
  };
  return { one, causes, open, refuse, crash };
}

test('a refusal beside another session is tried again alone, and tells only then', () => {
  const { one, causes, open, refuse } = stage();
  const first = open();
  refuse();
  expect([one.isOne, causes]).toEqual([true, []]);
  first.dead = true;
  open();
  expect([one.isOne, causes]).toEqual([true, ['refused']]);
});

test('JSON of a server that starts is no refusal, for which another session would be ended', () => {
  const { one, open } = stage();
  open();
  const details = { mayHaveActed: true, isForReply: true, isOtherJson: true };
  one.failed(one.begin(), new UpstreamFailure('upstream_protocol_error', 'starting', details));
  expect(one.isOne).toBe(false);
});

test('a caller that is refused in any case does not make it a server with one session', () => {
  const { one, causes, open, refuse } = stage();
  for (let trial = 1; trial <= 3; trial += 1) {
    const first = open();
    refuse();
    expect(one.isOne).toBe(true);
    first.dead = true;
    refuse();
    expect(one.isOne).toBe(false);
  }
  open();
  refuse();
  expect([one.isOne, causes]).toEqual([false, []]);
});

test('a server that had two sessions is not suspected any more', () => {
  const { one, open, refuse, crash } = stage();
  const first = open();
  const second = open();
  second.dead = true;
  refuse();
  crash(first);
  crash(open());
  expect(one.isOne).toBe(false);
});

test('connections that break once are a restart, and those that break twice a server with one session', () => {
  const { one, causes, open, crash } = stage();
  crash(open());
  expect(one.isOne).toBe(false);
  crash(open());
  expect([one.isOne, causes]).toEqual([true, ['crashed']]);
});

test('a refusal of the first session says nothing', () => {
  const { one, refuse } = stage();
  refuse();
  expect(one.isOne).toBe(false);
});
