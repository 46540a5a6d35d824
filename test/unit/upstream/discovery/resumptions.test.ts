import { describe, expect, test } from 'vitest';
import { Resumptions } from '../../../../src/upstream/discovery/resumptions.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';
import { recordedLog } from '../../../fixtures/recorded-log.ts';

function resumptions() {
  const clock = new ManualClock();
  const changes: unknown[] = [];
  const log = recordedLog((_event, { delivers, cause }) => changes.push([delivers, cause]));
  const learned = new Resumptions(clock, log);
  return { clock, changes, learned };
}

describe('resumed streams of a server', () => {
  test('deliver once one was seen to, and that is told once', () => {
    const { learned, changes } = resumptions();
    expect(learned.deliver).toBe(false);
    learned.note('delivered');
    learned.note('delivered');
    expect(learned.deliver).toBe(true);
    expect(changes).toEqual([[true, 'delivered']]);
  });

  test.each(['late', 'refused'] as const)('deliver no more once one was %s', (outcome) => {
    const { clock, learned, changes } = resumptions();
    learned.note('delivered');
    learned.note(outcome);
    clock.advance(599_999);
    learned.note('delivered');
    expect(learned.deliver).toBe(false);
    clock.advance(1);
    expect(learned.deliver, 'time alone shows nothing').toBe(false);
    learned.note('delivered');
    expect(learned.deliver).toBe(true);
    expect(changes).toEqual([
      [true, 'delivered'],
      [false, outcome],
      [true, 'delivered'],
    ]);
  });

  test('are distrusted from the last failure on', () => {
    const { clock, learned } = resumptions();
    learned.note('refused');
    clock.advance(599_999);
    learned.note('late');
    clock.advance(599_999);
    learned.note('delivered');
    expect(learned.deliver).toBe(false);
  });
});
