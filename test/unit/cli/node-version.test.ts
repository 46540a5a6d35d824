import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { explain, isRecentEnough, NEEDED } from '../../../bin/node-version.js';

test.each(['22.19.0', '22.20.1', '24.0.0', '100.0.0'])('Node.js %s is recent enough', (version) => {
  expect(isRecentEnough(version)).toBe(true);
});

test.each(['22.18.9', '20.20.2', '21.99.0', '8.0.0'])('Node.js %s is too old', (version) => {
  expect(isRecentEnough(version)).toBe(false);
});

test('the message is one line with both versions and what to do', () => {
  const problem = 'mrtr-gateway: requires Node.js 22.19 or newer (found 20.20.2).';
  expect(explain('20.20.2', true)).toBe(`${problem} Run npm ci, then npm start`);
  expect(explain('20.20.2', false)).toBe(`${problem} Install a newer Node.js`);
});

test('the package asks for the same version', () => {
  const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as {
    engines: { node: string };
  };
  expect(manifest.engines.node).toBe(`>=${NEEDED.join('.')}.0`);
});
