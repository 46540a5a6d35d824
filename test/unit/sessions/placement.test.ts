/** Which process has a home, while homes come and go. */
import { expect, test } from 'vitest';
import { ClaimTable, RemoteClaims } from '../../../src/replicas/directory/claim-table.ts';
import { createKeyRing, generateKey } from '../../../src/seal/key-ring.ts';
import { HomePlacement } from '../../../src/sessions/placement.ts';
import { settled } from '../../fixtures/calls-testbed.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const TTL_MS = 600_000;

/** Two processes with one table, which takes what it is told in the order in which it was sent. */
function processes() {
  const clock = new ManualClock();
  const table = new ClaimTable(clock, () => false);
  const ring = createKeyRing([generateKey()], 'home');
  const placementOf = (boot: string) => {
    const store: RemoteClaims = new RemoteClaims(clock, (request, claim) => {
      const reply = table.answer(claim, { id: boot, boot });
      setImmediate(() => store.receive(request, reply));
    });
    const hasSuccessor = () => true;
    return new HomePlacement({ store, ring, route: 'mcp', ttlMs: TTL_MS, hasSuccessor, clock });
  };
  return { clock, one: placementOf('one'), two: placementOf('two') };
}

// Rule sessions-16.
test.each([
  ['its session has ended', false],
  ['its session is left to the server', true],
])('a home that is wanted again in the moment in which %s stays here', async (_, isLeft) => {
  const { one, two } = processes();
  await one.claim('ada');
  one.giveUp('ada', isLeft);
  expect(await one.claim('ada')).toEqual({ type: 'here', session: null });
  await settled();
  expect(await two.claim('ada')).toEqual({ type: 'elsewhere', holder: { id: 'one', boot: 'one' } });
});

// Rule sessions-16.
test.each(['close', 'abandon'] as const)(
  'a home that is being claimed in the moment of %s is not claimed again and again',
  async (end) => {
    const { clock, one, two } = processes();
    const claiming = one.claim('ada');
    one[end]();
    expect(await claiming).toEqual({ type: 'here', session: null });
    expect(one.isHere('ada')).toBe(false);
    for (let third = 0; third < 3; third += 1) {
      clock.advance(TTL_MS / 3);
      await settled();
    }
    expect(await two.claim('ada')).toEqual({ type: 'here', session: null });
  },
);
