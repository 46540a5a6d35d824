/** What a client is told of a call that failed, for every way to fail that the table has: it may have acted. */
import { describe, expect, test } from 'vitest';
import type { CallData } from '../../../../src/calls/call/data.ts';
import { replyOfEnd } from '../../../../src/calls/call/replies.ts';
import type { CallEnd } from '../../../../src/calls/machine/states.ts';
import * as ending from './cases/client-leaves.ts';
import * as leaving from './cases/process-leaves.ts';
import * as retrying from './cases/retries.ts';
import * as asking from './cases/server-asks.ts';
import * as finishing from './cases/server-ends.ts';
import type { Case } from './cases/notation.ts';

const CASES: readonly Case[] = [asking, finishing, retrying, ending, leaving].flatMap((group) =>
  Object.values(group).flat(),
);

/** The ends that the cases of the table lead to, or tell a waiter, each once. */
function endsOf(cases: readonly Case[]): CallEnd[] {
  const ends = cases.flatMap(({ state, effects }) => [
    ...('end' in state ? [state.end] : []),
    ...effects.flatMap((effect) =>
      effect.do === 'reply' && effect.reply.type === 'end' ? [effect.reply.end] : [],
    ),
  ]);
  return [...new Map(ends.map((end) => [JSON.stringify(end), end])).values()];
}

const ENDS = endsOf(CASES).filter(({ type }) => type !== 'outcome');

function saidOf(end: CallEnd, hasBegun: boolean): unknown {
  const exchange = { hasBegun, serverInfo: null };
  const limits = { maxRounds: 10 };
  const call = { method: 'prompts/get', exchange, limits, loggedTarget: 'travel' };
  const reply = replyOfEnd(call as unknown as CallData, end);
  if (reply.kind !== 'failed') throw new Error(`${end.type} is no failure`);
  return (reply.failure.error.data as { mayHaveActed: unknown }).mayHaveActed;
}

test('the cases of the table lead to every end', () => {
  expect(new Set(ENDS.map(({ type }) => type))).toEqual(
    new Set(['declined', 'lost', 'cancelled', 'left', 'expired', 'stopped', 'refused']),
  );
});

describe.each(ENDS)('a call that ends with $type', (end) => {
  test('may have acted', () => {
    expect(['unknown', 'yes']).toContain(saidOf(end, false));
  });

  test('says no less once the server is known to have begun', () => {
    const isKnown = !['cancelled', 'expired'].includes(end.type);
    expect(saidOf(end, true)).toBe(isKnown ? 'yes' : 'unknown');
  });
});
