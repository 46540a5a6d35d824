/** Responses whose bytes are no HTTP, or that break off. */
import { describe, expect, test } from 'vitest';
import { callTool } from '../../../fixtures/clients/modern-client.ts';
import { expectUnharmed, ground } from '../../../fixtures/gateways/survival-testbed.ts';
import { reasonOf } from '../../../fixtures/gateways/replica-testbed.ts';
import { raw } from '../../../fixtures/failures/wrong-answers.ts';
import {
  expectDiscreet,
  expectFailure,
  LIMITS,
  SECRET,
} from '../../../fixtures/failures/hostile-answers.ts';

// Rule failures-6.
describe('bytes that are no HTTP', () => {
  const ok = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n';
  test.each([
    ['nothing at all', ''],
    ['garbage', `${SECRET}\r\n\r\n`],
    ['half a status line', 'HTTP/1.1 2'],
    ['half a head', ok],
    ['a head beyond all bounds', `${ok}x: ${'x'.repeat(80_000)}\r\n\r\n`],
    [
      'another protocol',
      'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n',
    ],
    ['interim answers only', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1_000)],
    ['two lengths', `${ok}content-length: 2\r\ncontent-length: 3\r\n\r\n{}`],
    ['a length that is none', `${ok}content-length: two\r\n\r\n{}`],
  ])('%s', async (_title, text) => {
    await expectFailure(raw(text), 'call_lost');
  });

  test.each([
    [
      'a length and chunks',
      `${ok}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
    ],
    ['a body that ends early', `${ok}content-length: 1000\r\n\r\n{"${SECRET}`],
    ['a body that ends in a chunk', `${ok}transfer-encoding: chunked\r\n\r\nff\r\n{"${SECRET}`],
    ['a chunk size that is none', `${ok}transfer-encoding: chunked\r\n\r\n${SECRET}\r\n{}\r\n`],
  ])('%s', async (_title, text) => {
    const field = await ground(LIMITS, raw(text));
    const exchanged = await callTool(field.url, 'hostile');
    expect(reasonOf(exchanged)).toBe('call_lost');
    expectDiscreet(field, exchanged);
    await expectUnharmed(field);
  });

  // Rule failures-5.
  test.each([
    ['with thousands of headers', `${ok}${'x: 1\r\n'.repeat(12_000)}\r\n`],
    ['of no bytes', `${ok}content-length: 0\r\n\r\n`],
  ])('an empty body %s is HTTP, and no reply', async (_title, text) => {
    await expectFailure(raw(text), 'upstream_protocol_error');
  });

  // Rule failures-6.
  test.each([
    ['as JSON', (message: string) => `${ok}content-length: ${message.length}\r\n\r\n${message}`],
    [
      'as events',
      (message: string) =>
        `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n` +
        chunk(`event: message\ndata: ${message}\n\n`),
    ],
  ])(
    'a valid response that breaks off after any byte is either read or lost: %s',
    async (_title, write) => {
      let cutAt = 0;
      let length = 0;
      const field = await ground({}, ({ body }, response) => {
        const result = { content: [{ type: 'text', text: 'whole' }] };
        const text = write(JSON.stringify({ jsonrpc: '2.0', id: body.id, result }));
        length = text.length;
        response.socket?.write(text.slice(0, cutAt));
        response.socket?.end();
      });
      const ends = new Set<unknown>();
      for (; cutAt <= length; cutAt += 1) {
        const exchanged = await callTool(field.url, 'hostile');
        ends.add(reasonOf(exchanged) ?? exchanged.response.result.content[0].text);
        expectDiscreet(field, exchanged);
      }
      expect([...ends].sort()).toEqual(['call_lost', 'whole']);
      await expectUnharmed(field);
    },
  );
});

function chunk(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`;
}
