/** Clients that use HTTP otherwise than the SDKs do, in front of server-everything over stdio. */
import { once } from 'node:events';
import { request } from 'node:http';
import { expect, test } from 'vitest';
import { EventReader, LegacyHttpClient } from '../fixtures/clients/legacy-http.ts';
import { testGateway } from '../fixtures/gateways/test-gateway.ts';
import { EVERYTHING_STDIO } from '../fixtures/processes.ts';

const ROOTS = { roots: [{ uri: 'file:///home/ada', name: 'home' }] };
const LONG = 'trigger-long-running-operation';

/** A client whose server asks for its roots 350 ms after the session has begun, and then tells that it has them. */
async function connected() {
  const gateway = await testGateway({ ...EVERYTHING_STDIO, roots: 'caller' });
  const client = await LegacyHttpClient.open(gateway.url, {}, { roots: { listChanged: true } });
  const tell = async (message: object) => {
    expect((await client.post({ jsonrpc: '2.0', ...message })).status).toBe(202);
  };
  await tell({ method: 'notifications/initialized' });
  return { gateway, client, tell };
}

/** Reads a stream up to a message of a kind. @returns it, with the id of its event */
async function read(stream: EventReader, method: string | undefined) {
  for (;;) {
    const event = await stream.next();
    if (event === null) throw new Error(`the stream ended without ${method ?? 'a response'}`);
    if (event.message.method === method) return event;
  }
}

test('a client without a GET is asked on the stream of its call', async () => {
  const { client, tell } = await connected();
  const call = new EventReader(await client.send(client.callOf(LONG, { duration: 1, steps: 1 })));
  const { message } = await read(call, 'roots/list');
  await tell({ id: message.id, result: ROOTS });
  await read(call, 'notifications/message');
  await read(call, undefined);
  expect(await call.next()).toBeNull();
  expect(await client.text('get-roots-list')).toContain('file:///home/ada');
});

test('a client whose GET breaks resumes it, and is asked what it was asked meanwhile', async () => {
  const { client, tell } = await connected();
  const first = await client.listen();
  const { id, message } = await read(first, 'roots/list');
  first.leave();
  await tell({ id: message.id, result: ROOTS });
  await tell({ method: 'notifications/roots/list_changed' });
  const second = await client.listen({ 'last-event-id': id });
  const again = await read(second, 'roots/list');
  await tell({ id: again.message.id, result: ROOTS });
  await read(second, 'notifications/message');
});

test('a client whose call breaks gets the rest of its stream', async () => {
  const { client } = await connected();
  const params = {
    ...client.callOf(LONG, { duration: 1, steps: 2 }).params,
    _meta: { progressToken: 1 },
  };
  const leaving = new AbortController();
  const response = await fetch(client.url, {
    method: 'POST',
    headers: {
      ...client.headers,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 'broken', method: 'tools/call', params }),
    signal: leaving.signal,
  });
  const { id } = await read(new EventReader(response), 'notifications/progress');
  leaving.abort();
  const rest = await client.listen({ 'last-event-id': id });
  await read(rest, 'notifications/progress');
  expect((await read(rest, undefined)).message.id).toBe('broken');
  expect(await rest.next()).toBeNull();
});

test('a client that reads nothing, and then vanishes, holds up no other one', async () => {
  const { gateway, client } = await connected();
  const message = 'x'.repeat(512 * 1024);
  const unread = Array.from({ length: 8 }, () => {
    const sent = request(client.url, {
      method: 'POST',
      headers: {
        ...client.headers,
        'content-type': 'application/json',
        accept: 'text/event-stream',
      },
    });
    sent.on('error', () => {}).end(JSON.stringify(client.callOf('echo', { message })));
    return sent;
  });
  await Promise.all(unread.map((sent) => once(sent, 'response')));
  const other = await LegacyHttpClient.open(gateway.url);
  expect(await other.text('echo', { message: 'hello' })).toBe('Echo: hello');
  for (const sent of unread) sent.destroy();
  expect((await client.delete()).status).toBe(200);
  await gateway.log.saw('legacy_session.ended');
});
