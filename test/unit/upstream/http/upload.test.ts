import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { uploadOf } from '../../../../src/upstream/http/client.ts';

test('a large body is one that is released when it was sent, and says its length in bytes', async () => {
  const large = 'é'.repeat(100_000);
  const { body, headers } = uploadOf(large);
  expect(body).toBeInstanceOf(Readable);
  expect(headers).toEqual({ 'content-length': '200000' });
  expect(body instanceof Readable && (await text(body))).toBe(large);
});

test('a small one is sent as it is, and none as none', () => {
  expect(uploadOf('{}')).toEqual({ body: '{}', headers: {} });
  expect(uploadOf(undefined)).toEqual({ body: null, headers: {} });
});
