/** The page that `npm run sweep` writes. */
import { expect, test } from 'vitest';
import { table, type Result } from '../../../sweep/table.ts';

const SERVER: Result['server'] = {
  name: 'a-server',
  package: { registry: 'npm', name: 'a-server', version: '1.2.3' },
  language: 'TypeScript',
  start: { transport: 'stdio', command: ['a-server'] },
  calls: [],
};

test('the row of a server counts the calls with the same result, and names those with another verdict', () => {
  const comparison = {
    lists: [{ name: 'tools' as const, count: 3, missing: [], changed: [] }],
    calls: [
      { tool: 'broken', verdict: 'different' as const, detail: '' },
      { tool: 'echo', verdict: 'same result' as const, detail: '' },
      { tool: 'offline', verdict: 'same error' as const, detail: '' },
      { tool: 'add', verdict: 'same result' as const, detail: '' },
    ],
    questions: { direct: 0, through: 0, same: true },
  };
  expect(
    table([{ server: SERVER, comparison }])
      .split('\n')
      .at(-1),
  ).toBe(
    '| a-server 1.2.3 | TypeScript | stdio | 3/0/0/0 | 2; same error: `offline`; **different**: `broken` | 0 |  |',
  );
});
