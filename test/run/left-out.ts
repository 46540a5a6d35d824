/**
 * Says at the end of a run which tests were skipped, why, and how to run them. If `LEFT_OUT_FILE` names a file, the
 * same text is written there.
 */
import { writeFileSync } from 'node:fs';
import type { Reporter, TestCase, TestModule } from 'vitest/node';
import { LENGTHS } from './lengths.ts';
import { NEEDS } from './needs.ts';

export default class LeftOut implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const lines = leftOut(modules.flatMap((one) => [...one.children.allTests('skipped')]));
    const text = lines.map((line) => `  ${line}\n`).join('');
    if (text !== '') console.log(`\nLeft out of this run:\n${text}`);
    const file = process.env['LEFT_OUT_FILE'];
    if (file !== undefined) writeFileSync(file, text);
  }
}

type Skipped = Pick<TestCase, 'tags'>;

/** @returns a line for each reason: how many tests it skips, and how to run them */
export function leftOut(skipped: readonly Skipped[], needs = NEEDS): string[] {
  const count = (tag: string) => skipped.filter(({ tags }) => tags.includes(tag)).length;
  const missing = needs
    .filter(({ isThere }) => !isThere)
    .map(({ tag, what, howToGet }) => ({ tests: count(tag), says: `need ${what}: ${howToGet}` }));
  const tooLong = LENGTHS.map(({ tag, what, script }) => ({
    tests: count(tag),
    says: `left to ${script}: ${what}`,
  }));
  return [...missing, ...tooLong]
    .filter(({ tests }) => tests > 0)
    .map(({ tests, says }) => `${tests} ${tests === 1 ? 'test' : 'tests'} ${says}`);
}
