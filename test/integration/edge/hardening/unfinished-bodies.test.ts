/** Bodies of which a part has come, and that take memory until their end: what all of them can take together. */
import { expect, test } from 'vitest';
import { rawRequest } from '../../../fixtures/clients/raw-http.ts';
import {
  callBody,
  callHeaders,
  closed,
  expectUnharmed,
  ground,
  openBoth,
  type Ground,
} from '../../../fixtures/gateways/survival-testbed.ts';

const MIB = 1024 * 1024;
/** A quarter of it is for bodies, and half of that for one caller. */
const MEMORY = { memoryBytes: 16 * MIB };
const PART = MIB - 64 * 1024;
const NO_ROOM = /^HTTP\/1\.1 503 [^]*retry-after: 1\r\n[^]*limits\.maxMemoryPercent/;

/** Begins a POST, and sends so much of its body. Resolves when the gateway has read that, or has responded. */
async function begin(url: string, changes: Record<string, string>, path: string) {
  const { client, server } = await openBoth(url);
  const headers = callHeaders({ 'content-length': String(2 * MIB), ...changes });
  const request = Buffer.from(rawRequest('POST', path, headers));
  const read = server.bytesRead + request.byteLength + PART;
  let response = '';
  client.on('data', (data) => (response += data.toString('latin1')));
  client.write(Buffer.concat([request, Buffer.alloc(PART, ' ')]));
  while (server.bytesRead < read && server.bytesWritten === 0) await turn();
  await turn();
  const isRefused = server.bytesWritten > 0;
  while (isRefused && !response.includes('}')) await turn();
  return { client, server, isRefused, response };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Begins POSTs until one is refused. @returns the others, which are unfinished */
async function fill({ url }: Ground, changes: Record<string, string> = {}, path = '/mcp') {
  const unfinished = [];
  while (unfinished.length < 10) {
    const { isRefused, response, ...sockets } = await begin(url, changes, path);
    if (isRefused) {
      expect(response).toMatch(NO_ROOM);
      return unfinished;
    }
    unfinished.push(sockets);
  }
  throw new Error('nothing was refused');
}

// Rule http-14: Unfinished bodies take at most a quarter of the memory of `limits.maxMemoryPercent`, and those of one
// caller half of that. A body beyond it gets 503 with `Retry-After`.
test('take no more than their part of the memory, and make room when they end', async () => {
  const field = await ground(MEMORY);
  const unfinished = await fill(field);
  expect(unfinished).toHaveLength(2);
  for (const { client, server } of unfinished) {
    client.destroy();
    await closed(server);
  }
  expect(await fill(field)).toHaveLength(2);
  await expectUnharmed(field);
});

// Rule http-14.
test('of one caller leave room for those of another one', async () => {
  const identity = { source: 'header', header: 'x-user' } as const;
  const field = await ground({ ...MEMORY, identity, edge: { trustedProxies: ['127.0.0.1'] } });
  expect(await fill(field, { 'x-user': 'alice' })).toHaveLength(2);
  expect(await fill(field, { 'x-user': 'bob' })).toHaveLength(2);
});

// Rule http-14.
test('count as well on a path that is spelled otherwise, where the framework reads them', async () => {
  const field = await ground(MEMORY);
  expect(await fill(field, {}, '/%6dcp')).toHaveLength(2);
});

test('that end give back what they took', async () => {
  const field = await ground(MEMORY);
  const body = callBody().padEnd(PART, ' ');
  for (let count = 0; count < 5; count += 1) {
    const response = await fetch(field.url, {
      method: 'POST',
      headers: callHeaders()
        .filter(([name]) => name !== 'host')
        .map(([a, b]) => [a, b] as [string, string]),
      body,
    });
    expect(response.status).toBe(200);
  }
  await expectUnharmed(field);
});
