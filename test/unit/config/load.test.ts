import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { ConfigError } from '../../../src/config/load/problem.ts';
import { loadConfig } from '../../../src/config/load/load.ts';

const folder = mkdtempSync(join(tmpdir(), 'mrtr-gateway-config-'));
afterAll(() => rmSync(folder, { recursive: true }));

function write(name: string, content: string | Uint8Array): string {
  const file = join(folder, name);
  writeFileSync(file, content);
  return file;
}

function errorOf(file: string): ConfigError {
  try {
    loadConfig(file, {});
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error('it loaded');
}

describe('a file that cannot be read is one line', () => {
  test('missing', () => {
    const file = join(folder, 'missing.yaml');
    const { code, message } = errorOf(file);
    expect(code).toBe('config_unreadable');
    expect(message).toBe(`cannot read ${file}: no such file or directory (ENOENT)`);
  });

  test('a folder', () => {
    expect(errorOf(folder)).toMatchObject({
      code: 'config_unreadable',
      message: `cannot read ${folder}: it is a directory`,
    });
  });

  test('too large', () => {
    const file = write('large.yaml', '#'.repeat(1024 * 1024 + 1));
    expect(errorOf(file).message).toBe(`cannot read ${file}: it is larger than 1048576 bytes`);
  });

  test('not UTF-8', () => {
    const file = write('latin.yaml', Uint8Array.of(0x61, 0xe9));
    expect(errorOf(file).message).toBe(`cannot read ${file}: it is not UTF-8 text`);
  });
});

test('problems name the file as it was given', () => {
  const file = write('wrong.yaml', 'routes:\n  - upstream:\n      url: ftp://x\n');
  expect(errorOf(file)).toMatchObject({
    code: 'config_invalid',
    message: `${file}:3:12 routes[0].upstream.url: expected an http or https URL, got "ftp://x"`,
  });
});

test('file references start at the folder of the configuration', () => {
  write('seal-key', `${'A'.repeat(43)}\n`);
  const file = write(
    'with-key.yaml',
    'routes: [{upstream: {url: "http://a/"}}]\nseal: {keys: [{kid: a, key: "file:./seal-key"}]}\n',
  );
  expect(loadConfig(file, {}).config.seal.keys).toEqual([{ kid: 'a', key: 'A'.repeat(43) }]);
});

test('a file reference to nothing says so, by the path that was written', () => {
  const file = write(
    'no-key.yaml',
    'routes: [{upstream: {url: "http://a/"}}]\nseal: {keys: [{kid: a, key: "file:nope"}]}\n',
  );
  expect(errorOf(file).message).toBe(
    `${file}:2:29 seal.keys[0].key: expected a readable file, got "nope": no such file or directory (ENOENT)`,
  );
});

test('a file of ten thousand unknown keys is judged in full, since no key is compared with all others', () => {
  const keys = Array.from({ length: 10_000 }, (_, index) => `k${index}: 1`).join('\n');
  expect(errorOf(write('many.yaml', keys)).problems.length).toBeGreaterThan(10_000);
});
