import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { rewritingEndpoint } from '../../../../src/front/passthrough/response.ts';

/** The stream as a client gets it, when it comes in pieces of this size. */
async function through(stream: Buffer, size: number): Promise<string> {
  const pieces: Buffer[] = [];
  for (let at = 0; at < stream.length; at += size) pieces.push(stream.subarray(at, at + size));
  const rewriting = rewritingEndpoint((endpoint) => `/told?${endpoint}`);
  return (await buffer(Readable.from(pieces).pipe(rewriting))).toString('latin1');
}
const size = fc.integer({ min: 1, max: 40 });
const lineEnd = fc.constantFrom('\n', '\r\n', '\r');

describe('the first event', () => {
  // Rule passthrough-13.
  test('says another endpoint, in pieces of any size and with any line ends', async () => {
    await fc.assert(
      fc.asyncProperty(size, lineEnd, fc.boolean(), async (size, end, reversed) => {
        const fields = ['event: endpoint', 'data: /own?session=1'];
        const lines = reversed ? fields.toReversed() : fields;
        const before = [': hello', '', 'retry: 5', 'id: 7', ...lines, '', ''].join(end);
        const after = ['data: {}', '', 'event: endpoint', 'data: /later', '', ''].join(end);
        const told = await through(Buffer.from(before + after, 'latin1'), size);
        expect(told).not.toContain('data: /own');
        expect(told).toContain('\ndata: /told?/own?session=1\n\n');
        expect(told).toContain('id: 7');
        expect(told.startsWith(`: hello${end}`)).toBe(true);
        expect(told.endsWith(after)).toBe(true);
      }),
    );
  });

  // Rule passthrough-13.
  test('of another name, and all behind it, pass as they came', async () => {
    const line = fc.string({
      unit: fc.integer({ min: 0x20, max: 0xff }).map((c) => String.fromCharCode(c)),
    });
    await fc.assert(
      fc.asyncProperty(size, fc.array(line), lineEnd, async (size, lines, end) => {
        const text = ['event: message', 'data: {}', '', ...lines].join(end);
        expect(await through(Buffer.from(text, 'latin1'), size)).toBe(text);
      }),
    );
  });
});

test('a stream that ends before its first event does passes whole', async () => {
  expect(await through(Buffer.from('event: endpoint\ndata: /own'), 3)).toBe(
    'event: endpoint\ndata: /own',
  );
});

test('what is longer than an endpoint can be is not held back', async () => {
  const text = `data: ${'x'.repeat(20_000)}`;
  expect(await through(Buffer.from(text), 100)).toBe(text);
});

test('an endpoint that cannot be rewritten ends the stream', async () => {
  const stream = Readable.from([Buffer.from('event: endpoint\ndata: /own\n\n')]);
  await expect(buffer(stream.compose(rewritingEndpoint(() => null)))).rejects.toThrow();
});
