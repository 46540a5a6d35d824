import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import {
  readEventStream,
  type ServerSentEvent,
} from '../../../../src/upstream/transport/event-stream.ts';

async function read(chunks: (string | Uint8Array)[], maxEventBytes = 1024) {
  const events: ServerSentEvent[] = [];
  const retries: number[] = [];
  const body = Readable.from(chunks.map((chunk) => Buffer.from(chunk as string)));
  await readEventStream(body, maxEventBytes, {
    event: (event) => void events.push(event),
    retry: (afterMs) => retries.push(afterMs),
  });
  return { events, retries };
}

describe('an event stream', () => {
  test('is read with LF, CRLF, comments, several data lines and a byte order mark', async () => {
    const { events } = await read([
      '\uFEFF: hello\n\ndata: one\ndata: two\n\n',
      'event: endpoint\r\ndata: /message\r\n\r\n',
    ]);
    expect(events).toEqual([
      { event: 'message', data: 'one\ntwo', id: undefined },
      { event: 'endpoint', data: '/message', id: undefined },
    ]);
  });

  test('is put together when a character is split between chunks', async () => {
    const bytes = Buffer.from('data: "é世"\n\n');
    const { events } = await read([...bytes].map((byte) => Uint8Array.of(byte)));
    expect(events.map((event) => event.data)).toEqual(['"é世"']);
  });

  test('gives the id of an event that has no data', async () => {
    const { events } = await read(['id: e1\ndata:\n\n']);
    expect(events).toEqual([{ event: 'message', data: '', id: 'e1' }]);
  });

  test('is refused when an event is larger than the limit', async () => {
    const endless = ['data: ', 'x'.repeat(600), 'x'.repeat(600), 'x'.repeat(600)];
    await expect(read(endless)).rejects.toMatchObject({ code: 'upstream_protocol_error' });
  });

  test('is refused when an event id is longer than a header may be', async () => {
    const chunks = [`id: ${'i'.repeat(2000)}\ndata: x\n\n`];
    await expect(read(chunks, 10_000)).rejects.toMatchObject({ code: 'upstream_protocol_error' });
  });

  test('cannot make us wait for ever, nor not at all', async () => {
    const { retries } = await read([
      'retry: 500\n\n',
      `retry: ${'9'.repeat(400)}\n\n`,
      'retry: 0\n\n',
    ]);
    expect(retries).toEqual([500, 30_000, 100]);
  });
});
