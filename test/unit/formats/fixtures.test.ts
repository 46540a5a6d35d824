/** What other builds wrote, and this one reads. */
import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { fixture, FORMATS } from '../../fixtures/formats/formats.ts';
import { plainly } from '../../fixtures/formats/format.ts';
import { IN_REDIS } from '../../fixtures/formats/in-redis.ts';

const names = readdirSync(new URL('../../fixtures/formats/', import.meta.url)).flatMap((file) => {
  const [, name, version] = /^(.+)-(\d+)\.json$/.exec(file) ?? [];
  return name === undefined ? [] : [[name, Number(version)] as const];
});
const formatOf = (name: string) => FORMATS.find((format) => format.name === name);

test('every format has a fixture of its version, and every fixture a format that reads it', () => {
  const known = [...FORMATS, IN_REDIS];
  expect(names).toEqual(expect.arrayContaining(known.map(({ name, version }) => [name, version])));
  expect(names.filter(([name]) => known.every((format) => format.name !== name))).toEqual([]);
});

// Rule upgrade-1: What a process leaves for others has a version. Each build reads the versions of all earlier
// builds.
describe.each(names.filter(([name]) => name !== IN_REDIS.name))(
  '%s, version %i,',
  (name, version) => {
    const { samples } = fixture(name, version);

    test.each(Object.entries(samples))('is read by this build: %s', async (sample, written) => {
      expect(await plainly(formatOf(name)?.read(written.text, sample))).toEqual(written.read);
    });
  },
);

// Rule upgrade-1.
test.each(FORMATS)('this build writes $name as its fixture has it', async (format) => {
  const { samples } = fixture(format.name, format.version);
  const written = Object.entries(await format.write());
  const bare = written.map(([sample, text]) => [sample, format.bare(text)]);
  expect(Object.fromEntries(bare)).toEqual(
    Object.fromEntries(Object.entries(samples).map(([sample, each]) => [sample, each.bare])),
  );
});
