import { describe, expect, test } from 'vitest';
import { textOf } from './markdown-tables.ts';

describe('what a release is made of', () => {
  test('an image has the packages of the lock file, and runs no script of theirs', () => {
    const installs = textOf('Dockerfile').match(/\bnpm (?:ci|install|i|add|prune)\b.*/g) ?? [];
    expect(installs.length).toBeGreaterThan(0);
    for (const install of installs) {
      expect(install).toMatch(/^npm (?:ci|prune) .*--ignore-scripts/);
    }
  });

  test('the lock file has a digest of each package', () => {
    const { packages } = JSON.parse(textOf('package-lock.json')) as {
      packages: Record<string, { readonly integrity?: string; readonly link?: boolean }>;
    };
    const installed = Object.entries(packages).filter(
      ([path, { link }]) => path.includes('node_modules/') && link !== true,
    );
    expect(installed.length).toBeGreaterThan(0);
    const unproven = installed.filter(([, { integrity = '' }]) => !integrity.startsWith('sha512-'));
    expect(unproven.map(([path]) => path)).toEqual([]);
  });
});
