/**
 * How much room outcomes take in a real Redis.
 * @module-tag redis
 * @module-tag long
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { sealOutcome } from '../../../../src/calls/sealed-outcome.ts';
import { callId, homeBornWith } from '../../../../src/protocol/ids.ts';
import { single, startReplica, startServer } from '../../../fixtures/redis/directory-testbed.ts';
import { overseer } from '../../../fixtures/redis/redis-topologies.ts';

test('what the store holds of ten thousand calls is little more than their outcomes, and expires by itself', async () => {
  const server = await startServer();
  const { directory } = await startReplica(single(server));
  const answer = { kind: 'result', result: { content: 'x'.repeat(1_000) } } as const;
  const retry = { round: 1, answersDigest: 'd'.repeat(43), reply: answer };
  let sealedBytes = 0;
  const keep = async () => {
    const call = callId(randomUUID());
    const sealed = sealOutcome(randomBytes(32), call, retry);
    sealedBytes = sealed.byteLength;
    await directory.claim(homeBornWith(call), 60_000);
    await directory.end(call, 'outcome', sealed, 60_000);
  };
  for (let left = 10_000; left > 0; left -= 500)
    await Promise.all(Array.from({ length: 500 }, keep));
  const store = overseer(server);
  const keys = await store.keys('mrtr:*');
  expect(keys).toHaveLength(3 * 10_000 + 1);
  const looks = store.pipeline();
  for (const key of keys) looks.pttl(key).memory('USAGE', key);
  const replies = ((await looks.exec()) ?? []).map(([, reply]) => Number(reply));
  expect(Math.min(...replies), 'no key stays for ever').toBeGreaterThan(0);
  const bytes = replies.filter((_, index) => index % 2 === 1).reduce((sum, each) => sum + each);
  // Beside the outcome: a claim, its fencing token, and what three keys take by themselves.
  expect(bytes / 10_000).toBeLessThan(1.3 * sealedBytes + 800);
});
