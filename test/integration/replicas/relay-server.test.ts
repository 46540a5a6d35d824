/** The port on which a replica takes retries, and replicas that ask and then do not read. */
import { once } from 'node:events';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import type { CallReply, Leg } from '../../../src/model/request.ts';
import type { ServeRelayed } from '../../../src/model/relay.ts';
import { systemClock } from '../../../src/lib/clock.ts';
import { OpenResponses } from '../../../src/lib/http.ts';
import { openMessage, sealMessage } from '../../../src/replicas/relay/messages.ts';
import { writeRequest } from '../../../src/replicas/relay/messages.ts';
import { createRelayServer } from '../../../src/replicas/relay/http/http-relay.ts';
import { createKeyRing, type KeyRing } from '../../../src/seal/key-ring.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { RETRY } from '../../fixtures/clients/edge-request.ts';

const MIB = 1024 * 1024;

/** A retry at its owner, asked for by a replica that reads nothing of the answer. */
async function frozenAsker(writeStallMs: number) {
  const ring = createKeyRing([{ kid: 'a', secret: Buffer.alloc(32, 1) }], 'relay');
  const openResponses = new OpenResponses();
  const answer = Promise.withResolvers<CallReply>();
  const taken = Promise.withResolvers<Leg>();
  const app = createRelayServer({
    ring,
    audience: 'fleet',
    boot: 'owner',
    maxBodyBytes: MIB,
    writeStallMs,
    openResponses,
    clock: systemClock,
    serveRelayed: async (_route, _request, leg) => ({
      begin: () => {
        taken.resolve(leg);
        return answer.promise;
      },
      sendClientBack: () => {},
    }),
  });
  stopAfterTest(() => app.close());
  await app.listen({ port: 0, host: '127.0.0.1' });
  const text = writeRequest({ route: 'route', request: RETRY }).toString();
  const letter = { kind: 'retry', id: 'id', from: 'asker', number: 0, text } as const;
  const sealed = sealMessage(ring, { audience: 'fleet', key: 'owner' }, letter);
  const accepted = once(app.server, 'connection');
  const { port } = app.server.address() as AddressInfo;
  const client = connect(port, '127.0.0.1');
  stopAfterTest(async () => client.destroy());
  client.write(
    `POST /relay HTTP/1.1\r\nhost: owner\r\ncontent-length: ${sealed.length}\r\n\r\n${sealed}`,
  );
  const [connection] = (await accepted) as [Socket];
  const gone = once(connection, 'close');
  const question = await firstLetter(client, ring);
  client.pause();
  const go = { ...letter, kind: 'go', text: question?.text ?? '' } as const;
  const body = sealMessage(ring, { audience: 'fleet', key: 'owner' }, go);
  await fetch(`http://127.0.0.1:${port}/relay`, { method: 'POST', body });
  return { leg: await taken.promise, answer: answer.resolve, openResponses, connection, gone };
}

/**
 * Asks for a retry and reads all that its owner writes.
 * @param retry serves the retry
 * @returns the first line of the HTTP response, and the letters, in the order of the bytes
 */
async function conversation(serveRelayed: ServeRelayed) {
  const ring = createKeyRing([{ kid: 'a', secret: Buffer.alloc(32, 1) }], 'relay');
  const app = createRelayServer({
    ...{
      ring,
      audience: 'fleet',
      boot: 'owner',
      maxBodyBytes: MIB,
      writeStallMs: 10_000,
      clock: systemClock,
      serveRelayed,
    },
    openResponses: new OpenResponses(),
  });
  stopAfterTest(() => app.close());
  await app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = app.server.address() as AddressInfo;
  const text = writeRequest({ route: 'route', request: RETRY }).toString();
  const letter = { kind: 'retry', id: 'id', from: 'asker', number: 0, text } as const;
  const sealed = sealMessage(ring, { audience: 'fleet', key: 'owner' }, letter);
  const client = connect(port, '127.0.0.1');
  stopAfterTest(async () => client.destroy());
  client.write(
    `POST /relay HTTP/1.1\r\nhost: owner\r\nconnection: close\r\ncontent-length: ${sealed.length}\r\n\r\n${sealed}`,
  );
  let read = '';
  let isConfirmed = false;
  const letters = () =>
    (read.match(/^\S+\.\.\S+(?=\n)/gm) ?? []).map((line) =>
      openMessage(ring, { audience: 'fleet', key: 'asker' }, line, 10_000),
    );
  for await (const chunk of client as AsyncIterable<Buffer>) {
    read += chunk.toString('latin1');
    const ready = letters().find((one) => one?.kind === 'ready');
    if (isConfirmed || ready === undefined) continue;
    isConfirmed = true;
    const body = sealMessage(
      ring,
      { audience: 'fleet', key: 'owner' },
      { ...letter, kind: 'go', text: ready?.text ?? '' },
    );
    await fetch(`http://127.0.0.1:${port}/relay`, { method: 'POST', body });
  }
  return { head: read.split('\r\n', 1)[0], letters: letters() };
}

/** The letter in the first line of the answer that is one. */
async function firstLetter(client: Socket, ring: KeyRing<'relay'>) {
  let read = '';
  for (;;) {
    const [chunk] = (await once(client, 'data')) as [Buffer];
    read += chunk.toString('latin1');
    const sealed = /^\S+\.\.\S+$/m.exec(read)?.[0];
    if (sealed !== undefined && read.includes(`${sealed}\n`)) {
      return openMessage(ring, { audience: 'fleet', key: 'asker' }, sealed, 10_000);
    }
  }
}

describe('what a replica responds', () => {
  test('keeps its order when the call notifies its client the moment that it goes on', async () => {
    const { head, letters } = await conversation(async (_route, _request, leg) => ({
      begin: () => {
        leg.notify('notifications/progress', { progressToken: 'token', progress: 1 });
        return Promise.resolve({ kind: 'result', result: { content: [] } });
      },
      sendClientBack: () => {},
    }));
    expect(head).toBe('HTTP/1.1 200 OK');
    expect(letters[0]?.kind).toBe('ready');
    const pieces = letters.filter((letter) => letter?.kind === 'piece');
    expect(pieces.map((letter) => letter?.number)).toEqual(pieces.map((_, index) => index));
    const lines = pieces.map((letter) => letter?.text).join('');
    expect(lines.split('\n').map((line) => line && JSON.parse(line).type)).toEqual([
      'notification',
      'answer',
      '',
    ]);
  });
});

// Rule relay-9.
test('what is written in the moment in which the connection breaks keeps no owner from leaving', async () => {
  const { leg, answer, openResponses, connection, gone } = await frozenAsker(10_000);
  connection.destroy();
  // The response is not closed yet: that takes until the next turn.
  leg.notify('notifications/message', { level: 'info', data: 'late' });
  await gone;
  answer({ kind: 'result', result: { content: [] } });
  await expect.poll(() => openResponses.count).toBe(0);
});

describe('a replica that asks and does not read', () => {
  // Rule relay-9.
  test('is gone when nothing of what waits moves for a while, and with it its client', async () => {
    const { leg, gone } = await frozenAsker(300);
    const closed = new Promise<void>((resolve) => leg.closed.addEventListener('abort', resolve));
    const flood = setInterval(() => {
      leg.notify('notifications/message', { level: 'info', data: 'x'.repeat(MIB) });
    }, 1);
    stopAfterTest(async () => clearInterval(flood));
    await Promise.all([closed, gone]);
  });

  test('does not keep its owner from leaving: the response is dropped after a while', async () => {
    const { answer, gone, openResponses } = await frozenAsker(300);
    answer({ kind: 'result', result: { text: 'x'.repeat(16 * MIB) } });
    await gone;
    await expect.poll(() => openResponses.count).toBe(0);
  });
});
