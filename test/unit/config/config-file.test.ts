import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { ConfigFile } from '../../../src/config/load/config-file.ts';
import { ConfigError } from '../../../src/config/load/problem.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const KEY = Buffer.alloc(32, 7).toString('base64url');
const OTHER_KEY = Buffer.alloc(32, 8).toString('base64url');
const withLevel = (level: string) =>
  `routes: [{upstream: {url: "http://127.0.0.1:1/mcp"}}]\nlog: {level: ${level}}\nseal: {keys: [{kid: a, key: "file:key"}]}\n`;

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'mrtr-gateway-config-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

/** Writes what a ConfigMap or a Secret holds into a folder, as the kubelet does. */
function mount(into: string, version: string, files: Record<string, string>): void {
  mkdirSync(join(into, `..${version}`));
  for (const [name, text] of Object.entries(files))
    writeFileSync(join(into, `..${version}`, name), text);
  symlinkSync(`..${version}`, join(into, '..data_tmp'));
  renameSync(join(into, '..data_tmp'), join(into, '..data'));
}

/** Loads a file, and watches it. `next` resolves when a file has changed. */
function watching(file: string, clock = systemClock) {
  const config = new ConfigFile(file, {}, clock);
  onTestFinished(() => config.close());
  config.load();
  let changed = Promise.withResolvers<void>();
  let times = 0;
  config.watch(() => {
    times += 1;
    changed.resolve();
    changed = Promise.withResolvers();
  });
  return { config, next: () => changed.promise, times: () => times };
}

// Rule reload-5.
test('a file that is written or replaced, and a secret, are noticed', async () => {
  const path = folder();
  const file = join(path, 'config.yaml');
  writeFileSync(file, withLevel('info'));
  writeFileSync(join(path, 'key'), KEY);
  const { config, next } = watching(file);
  const written = next();
  writeFileSync(file, withLevel('warn'));
  await written;
  expect(config.load().log.level).toBe('warn');
  const replaced = next();
  writeFileSync(`${file}.new`, withLevel('error'));
  renameSync(`${file}.new`, file);
  await replaced;
  expect(config.load().log.level).toBe('error');
  const rotated = next();
  writeFileSync(join(path, 'key'), OTHER_KEY);
  await rotated;
  expect(config.load().seal.keys).toEqual([{ kid: 'a', key: OTHER_KEY }]);
});

// Rule reload-5.
test('a ConfigMap and a Secret that are swapped are noticed', async () => {
  const [configMap, secret] = [folder(), folder()];
  const text = (level: string) => withLevel(level).replace('file:key', `file:${secret}/key`);
  mount(configMap, 'one', { 'config.yaml': text('info') });
  mount(secret, 'one', { key: KEY });
  symlinkSync('..data/config.yaml', join(configMap, 'config.yaml'));
  symlinkSync('..data/key', join(secret, 'key'));
  const { config, next } = watching(join(configMap, 'config.yaml'));
  for (const [version, level] of [
    ['two', 'warn'],
    ['three', 'error'],
  ] as const) {
    const swapped = next();
    mount(configMap, version, { 'config.yaml': text(level) });
    await swapped;
    expect(config.load().log.level).toBe(level);
  }
  const swapped = next();
  mount(secret, 'two', { key: OTHER_KEY });
  await swapped;
  expect(config.load().seal.keys).toEqual([{ kid: 'a', key: OTHER_KEY }]);
});

// Rule reload-5.
test('what has the same content is no change, and a file that cannot be used is one change', async () => {
  const path = folder();
  const file = join(path, 'config.yaml');
  writeFileSync(file, withLevel('info'));
  writeFileSync(join(path, 'key'), KEY);
  const { config, next, times } = watching(file);
  writeFileSync(file, withLevel('info'));
  writeFileSync(join(path, 'beside'), 'x');
  await sleep(400);
  expect(times()).toBe(0);
  const broken = next();
  rmSync(join(path, 'key'));
  await broken;
  expect(() => config.load()).toThrow(ConfigError);
  writeFileSync(join(path, 'beside'), 'y');
  await sleep(400);
  expect(times()).toBe(1);
});

test('a change that the file system does not tell is found within a minute', () => {
  const path = folder();
  mkdirSync(join(path, 'one'));
  writeFileSync(join(path, 'one', 'config.yaml'), withLevel('info'));
  writeFileSync(join(path, 'one', 'key'), KEY);
  symlinkSync('one', join(path, 'current'));
  const clock = new ManualClock();
  const { times } = watching(join(path, 'current', 'config.yaml'), clock);
  mkdirSync(join(path, 'two'));
  writeFileSync(join(path, 'two', 'config.yaml'), withLevel('warn'));
  symlinkSync('two', join(path, 'next'));
  renameSync(join(path, 'next'), join(path, 'current'));
  clock.advance(59_999);
  expect(times()).toBe(0);
  clock.advance(1);
  expect(times()).toBe(1);
});
