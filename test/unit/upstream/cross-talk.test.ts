import { expect, test } from 'vitest';
import { CrossTalk } from '../../../src/upstream/cross-talk.ts';

/** More ids than are remembered. */
const MANY = 70_000;

function talk() {
  return new CrossTalk({ now: () => 0, hasSiblings: false });
}

const resultFor = (id: ReturnType<CrossTalk['issue']>) =>
  ({ type: 'response', id, reply: { result: {} } }) as const;

test('the reply to a call that ran for as long as any number of other requests is its own', () => {
  const crossTalk = talk();
  const [session, other] = [{}, {}];
  const call = crossTalk.issue(session);
  crossTalk.began(call, session);
  for (let times = 0; times < MANY; times += 1) crossTalk.issue(other);
  crossTalk.heard(resultFor(call), session, 'http-sse');
  expect(crossTalk.broadcasts).toBe(false);
  crossTalk.heard(resultFor(call), other, 'http-sse');
  expect(crossTalk.broadcasts).toBe(true);
});

test('so is the late reply to a call that nobody waits for any more', () => {
  const crossTalk = talk();
  const [session, other] = [{}, {}];
  const call = crossTalk.issue(session);
  crossTalk.began(call, session);
  crossTalk.ended(call, false);
  for (let times = 0; times < MANY; times += 1) crossTalk.issue(other);
  crossTalk.heard(resultFor(call), session, 'http-sse');
  expect(crossTalk.broadcasts).toBe(false);
});

test('a reply under an id of ours that was never given out shows another gateway over HTTP+SSE', () => {
  const crossTalk = talk();
  crossTalk.heard(resultFor(talk().issue({})), {}, 'http-sse');
  expect(crossTalk.broadcasts).toBe(true);
});
