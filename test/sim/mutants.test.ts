/** The defects that the simulation has to find. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { mutate, MUTANTS } from './mutants/mutants.ts';

describe('the mutants of the simulation', () => {
  test.each(MUTANTS)('the source still has what is changed where $what', (mutant) => {
    const source = readFileSync(mutant.file, 'utf8');
    const { count, text } = mutate(mutant, source);
    expect(count).toBe(1);
    expect(text).not.toBe(source);
  });

  test('each has a name of its own', () => {
    expect(new Set(MUTANTS.map(({ what }) => what)).size).toBe(MUTANTS.length);
  });
});
