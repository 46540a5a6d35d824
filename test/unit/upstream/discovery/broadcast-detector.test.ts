import { expect, test } from 'vitest';
import {
  BroadcastDetector,
  SessionIds,
} from '../../../../src/upstream/discovery/broadcast-detector.ts';

/** More ids than are remembered. */
const MANY = 70_000;

function newDetector() {
  return new BroadcastDetector({ now: () => 0, hasSiblings: false });
}

const resultFor = (id: ReturnType<BroadcastDetector['issueId']>) =>
  ({ type: 'response', id, reply: { result: {} } }) as const;

test('the reply to a call that ran for as long as any number of other requests is its own', () => {
  const detector = newDetector();
  const [session, other] = [new SessionIds(), new SessionIds()];
  const call = detector.issueId(session);
  detector.callBegan(call, session);
  for (let times = 0; times < MANY; times += 1) detector.issueId(other);
  detector.received(resultFor(call), session, 'http-sse');
  expect(detector.broadcasts).toBe(false);
  detector.received(resultFor(call), other, 'http-sse');
  expect(detector.broadcasts).toBe(true);
});

test('so is the late reply to a call that nobody waits for', () => {
  const detector = newDetector();
  const [session, other] = [new SessionIds(), new SessionIds()];
  const call = detector.issueId(session);
  detector.callBegan(call, session);
  detector.callEnded(call, false);
  for (let times = 0; times < MANY; times += 1) detector.issueId(other);
  detector.received(resultFor(call), session, 'http-sse');
  expect(detector.broadcasts).toBe(false);
});

test('a reply under an id of ours that was never given out shows another gateway over HTTP+SSE', () => {
  const detector = newDetector();
  detector.received(
    resultFor(newDetector().issueId(new SessionIds())),
    new SessionIds(),
    'http-sse',
  );
  expect(detector.broadcasts).toBe(true);
});
