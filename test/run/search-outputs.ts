/** Fails a test after which a secret was found in the output of a gateway. Vitest loads it for each test file. */
import { afterAll, afterEach } from 'vitest';
import { forgetCanaries, takeFound } from '../fixtures/canaries.ts';

forgetCanaries();

const expectNone = () => {
  const [first, ...others] = takeFound();
  if (first === undefined) return;
  throw new Error(`The output of a gateway has a secret (and ${others.length} more): ${first}`);
};
afterEach(expectNone);
// What was written while the last test ended.
afterAll(expectNone);
