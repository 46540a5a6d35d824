/** The keys of an authorization server: read ahead of need, kept through an outage, and followed when they change. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, type FlattenedJWSInput } from 'jose';
import { describe, expect, test } from 'vitest';
import { KeySet, KeysUnavailable, type JwksSource } from '../../../src/identity/key-set.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const { publicKey } = await generateKeyPair('ES256', { extractable: true });
const jwk = await exportJWK(publicKey);
const setOf = (...kids: string[]) => ({ keys: kids.map((kid) => ({ ...jwk, kid, alg: 'ES256' })) });

/** A server of keys, and the keys as the gateway has them. */
async function serverOfKeys() {
  const server = { kids: ['one'], status: 200, asked: 0, body: null as string | null };
  const http = createServer((_request, response) => {
    server.asked += 1;
    response.writeHead(server.status, { location: '/elsewhere' });
    response.end(server.body ?? JSON.stringify(setOf(...server.kids)));
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  stopAfterTest(async () => http.close());
  const url = new URL(`http://127.0.0.1:${(http.address() as AddressInfo).port}/jwks`);
  return { server, ...keySet({ url }) };
}

function keySet(source: Partial<JwksSource>) {
  const clock = new ManualClock();
  const problems: string[] = [];
  const keys = new KeySet({
    source: {
      ...{ url: null, file: null },
      ...source,
    },
    clock,
    onFailure: (problem) => problems.push(problem),
  });
  stopAfterTest(async () => keys.close());
  const find = (kid: string) => keys.find({ alg: 'ES256', kid }, {} as FlattenedJWSInput);
  return { clock, keys, problems, find };
}

describe('keys behind a URL', () => {
  // Rule tokens-4: The keys of `identity.jwks` are read at the start, every 10 minutes, and for an unknown key, at
  // most every 10 s.
  test('are read once for many tokens, and again for a key that is unknown', async () => {
    const { server, clock, keys, find } = await serverOfKeys();
    await keys.start();
    await Promise.all([find('one'), find('one'), find('one')]);
    expect(server.asked).toBe(1);
    server.kids = ['two'];
    await expect(find('two'), 'within 10 s').rejects.toThrow('no applicable key');
    expect(server.asked).toBe(1);
    clock.advance(10_000);
    await Promise.all([find('two'), find('two')]);
    expect(server.asked).toBe(2);
    await expect(find('one'), 'it was withdrawn').rejects.toThrow('no applicable key');
  });

  // Rule tokens-5: If the keys cannot be read, known ones count for an hour. Without keys, tokens get 503 with
  // `Retry-After`.
  test('are kept for an hour if the server is down, and read as soon as it is back', async () => {
    const { server, clock, keys, problems, find } = await serverOfKeys();
    await keys.start();
    server.status = 500;
    clock.advance(600_000);
    await expect.poll(() => problems).toEqual(['the server responded with HTTP status 500']);
    expect(keys.isReady).toBe(true);
    await find('one');
    clock.advance(3_001_000);
    expect(keys.isReady).toBe(false);
    await expect(find('one')).rejects.toThrow(KeysUnavailable);
    await expect.poll(() => problems.length).toBe(2);
    server.status = 200;
    clock.advance(clock.nextInMs ?? 0);
    await expect.poll(() => keys.isReady).toBe(true);
    await find('one');
  });

  // Rule tokens-5.
  test.each([
    ['a redirect', { status: 302 }, 'HTTP status 302'],
    ['no JSON', { body: '<html>' }, 'JSON Web Key Set'],
    ['no key set', { body: '{"keys":1}' }, 'JSON Web Key Set'],
    ['too much', { body: `[${' '.repeat(1024 * 1024)}]` }, 'larger than'],
  ])('are none if the server sends %s', async (_, change, problem) => {
    const { server, keys, problems, find } = await serverOfKeys();
    Object.assign(server, change);
    await keys.start();
    expect(problems).toEqual([expect.stringContaining(problem)]);
    await expect(find('one')).rejects.toThrow(KeysUnavailable);
  });
});

// Rule tokens-4.
test('keys in a file are read again', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'keys-'));
  stopAfterTest(() => rm(folder, { recursive: true }));
  const file = join(folder, 'jwks.json');
  await writeFile(file, JSON.stringify(setOf('one')));
  const { clock, keys, find } = keySet({ file });
  await keys.start();
  await find('one');
  await writeFile(file, JSON.stringify(setOf('two')));
  clock.advance(10_000);
  await find('two');
});

test('a file that cannot be read says why', async () => {
  const { keys, problems } = keySet({ file: '/nowhere/jwks.json' });
  await keys.start();
  expect(problems).toEqual([expect.stringContaining('ENOENT')]);
  expect(keys.isReady).toBe(false);
});
