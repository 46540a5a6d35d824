/** What is left of a session that is over. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { BroadcastDetector } from '../../../../src/upstream/discovery/broadcast-detector.ts';
import type { Transport } from '../../../../src/upstream/transport/transport.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';
import { playedSession, playedTransport } from '../../../fixtures/played-session.ts';

/** Makes a call in a session that is closed then. @returns a part of the session, if it is still in memory */
async function useSession(detector: BroadcastDetector): Promise<WeakRef<Transport>> {
  const transport = playedTransport();
  const session = playedSession(() => transport, detector, new ManualClock());
  const listener = {
    notTaken: () => {},
    asked: () => {},
    withdrawn: () => {},
    unanswerable: () => {},
    notified: () => {},
    replied: () => {},
    interrupted: () => {},
    resumed: () => {},
    lost: () => {},
    backlog: () => null,
  };
  session.call('tools/call', () => ({}), listener, {}).abandon();
  await session.close();
  return new WeakRef(transport);
}

test('the detector of broadcasts remembers the ids of a session that is over, and not the session', async () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const detector = new BroadcastDetector({ now: () => 0, hasSiblings: false });
  const left = await useSession(detector);
  // What was just referred to by a WeakRef stays until the end of the turn.
  await new Promise(setImmediate);
  collectGarbage();
  expect(left.deref()).toBeUndefined();
  expect(detector.broadcasts).toBe(false);
});
