import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

test('V8 knows each flag that the command sets: it ignores one that it does not know', () => {
  const command = readFileSync('bin/mrtr-gateway.js', 'utf8');
  const set = [...command.matchAll(/setFlagsFromString\('(--[a-z-]+)=\d+'\)/g)].map(
    ([, flag]) => flag,
  );
  expect(set.length).toBeGreaterThan(0);
  expect(set.length).toBe(command.split('setFlagsFromString(').length - 1);
  const known = execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' });
  for (const flag of set) expect(known).toContain(`${flag} (`);
});
