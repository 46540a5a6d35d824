import fc from 'fast-check';
import { expect, test } from 'vitest';
import { DiscardedMessage } from '../../../src/upstream/discarded-message.ts';

const large = 'ü"x\\'.repeat(3_000);
const MESSAGES = [
  { jsonrpc: '2.0', id: 1, result: { a: large } },
  { result: { a: large, id: 5 }, jsonrpc: '2.0', id: 1 },
  { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: large } },
  { id: 'q', params: { a: large }, method: 'sampling/createMessage' },
].map((message) => Buffer.from(JSON.stringify(message)));

// Rule limits-10.
test('the ends of a message are the same, in whatever pieces it comes', () => {
  const pieces = fc.array(fc.integer({ min: 0, max: 9_000 }), { maxLength: 20 });
  fc.assert(
    fc.property(fc.constantFrom(...MESSAGES), pieces, (bytes, sizes) => {
      const message = new DiscardedMessage('upstream.maxEvent', 1_024);
      let at = 0;
      for (const size of [...sizes, bytes.length]) {
        message.take(bytes.subarray(at, at + size));
        at += size;
      }
      expect(message.read()).toEqual(wholly(bytes));
      expect(message.read().type).not.toBe('unknown');
    }),
  );
});

function wholly(bytes: Buffer) {
  const message = new DiscardedMessage('upstream.maxEvent', 1_024);
  message.take(bytes);
  return message.read();
}
