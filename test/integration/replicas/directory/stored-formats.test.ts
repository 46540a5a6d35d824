/**
 * What a deployment has in Redis, and what the next build finds there.
 * @module-tag redis
 */
import { expect, test } from 'vitest';
import { plainly } from '../../../fixtures/formats/format.ts';
import { fixture } from '../../../fixtures/formats/formats.ts';
import { IN_REDIS } from '../../../fixtures/formats/in-redis.ts';

const { samples } = fixture(IN_REDIS.name, IN_REDIS.version);

// Rule upgrade-1.
test.each(Object.entries(samples))(
  'what an earlier build left is found: %s',
  async (sample, left) => {
    expect(await plainly(IN_REDIS.read(left.text, sample))).toEqual(left.read);
  },
);

// Rule upgrade-1.
test('keys and values are those of the fixture', async () => {
  const written = Object.entries(await IN_REDIS.write());
  const bare = written.map(([sample, text]) => [sample, IN_REDIS.bare(text)]);
  expect(bare).toEqual(Object.entries(samples).map(([sample, left]) => [sample, left.bare]));
});
