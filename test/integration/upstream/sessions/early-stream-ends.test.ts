/** Streams that end before the reply: lost, or resumed where their events have ids. */
import { describe, expect, test } from 'vitest';
import { serverRequestId, sessionId, upstreamRequestId } from '../../../../src/protocol/ids.ts';
import { eventStream, json, legacyServer } from '../../../fixtures/servers/scripted-server.ts';
import {
  ASKING,
  call,
  closeAfterTest,
  Heard,
  open,
  reply,
  upstreamOf,
} from '../../../fixtures/servers/upstream-testbed.ts';

describe('a stream that ends too early', () => {
  // Rule resumption-4.
  test('is lost when its events have no ids', async () => {
    const server = await legacyServer((_received, response) => {
      const stream = eventStream(response);
      stream.raw(': hello\n\n');
      stream.end();
    });
    const { heard } = call(await open(upstreamOf(server)));
    expect(await heard.until('lost')).toEqual(['lost', 'upstream_unavailable']);
  });

  // Rule resumption-4.
  test('is lost when the last id is empty, and is not taken for the standalone stream', async () => {
    const server = await legacyServer(
      (_received, response) => {
        const stream = eventStream(response);
        stream.raw('id: e1\nretry: 100\ndata:\n\nid:\ndata:\n\n');
        stream.end();
      },
      { onGet: (_received, response) => void eventStream(response) },
    );
    const { heard } = call(await open(upstreamOf(server)));
    expect(await heard.until('lost')).toEqual(['lost', 'upstream_unavailable']);
    expect(server.received.filter(({ headers }) => 'last-event-id' in headers)).toEqual([]);
  });

  // Rule resumption-1 (2025-11-25 transports, "Resumability and Redelivery"): A stream with event ids that ends
  // without a response is resumed with `Last-Event-ID`. No event that the call took comes again.
  test('is resumed behind the last event when they have', async () => {
    let callId: unknown;
    const server = await legacyServer(
      (received, response) => {
        callId = received.body.id;
        const stream = eventStream(response);
        stream.raw('id: e1\nretry: 100\ndata:\n\n');
        stream.end();
      },
      {
        onGet: (received, response) => {
          const stream = eventStream(response);
          if (received.headers['last-event-id'] !== 'e1') return;
          stream.send(reply(callId), 'e2');
          stream.end();
        },
      },
    );
    const { heard } = call(await open(upstreamOf(server)));
    await heard.until('replied');
    expect(heard.events.map(([name]) => name)).toEqual(['interrupted', 'resumed', 'replied']);
  });

  // Rules questions-7, resumption-1.
  test('that brings a question once more, when it is resumed, asks it once', async () => {
    let callId: unknown;
    const question = { jsonrpc: '2.0', id: 'q', method: 'roots/list' };
    const server = await legacyServer(
      (received, response) => {
        callId = received.body.id;
        const stream = eventStream(response);
        stream.send(question, 'e1');
        stream.end();
      },
      {
        onGet: (received, response) => {
          const stream = eventStream(response);
          if (received.headers['last-event-id'] !== 'e1') return;
          stream.send(question, 'e1');
          stream.send(reply(callId), 'e2');
          stream.end();
        },
      },
    );
    const { heard } = call(await open(upstreamOf(server)));
    await heard.until('replied');
    expect(heard.events.map(([name]) => name)).toEqual([
      'asked',
      'interrupted',
      'resumed',
      'replied',
    ]);
  });

  // Rule questions-7.
  test('that is resumed from another replica asks what is new, and reports what is withdrawn', async () => {
    const again = { jsonrpc: '2.0', id: 'old', method: 'roots/list' };
    const withdrawal = {
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: 'old' },
    };
    const server = await legacyServer(() => {}, {
      onGet: (received, response) => {
        const stream = eventStream(response);
        if (received.headers['last-event-id'] !== 'e1') return;
        stream.send(again, 'e2');
        stream.send(withdrawal, 'e3');
        stream.send({ ...again, id: 'new' }, 'e4');
        stream.send(reply(7), 'e5');
      },
    });
    const upstream = upstreamOf(server);
    const owner = { profile: ASKING, clientInfo: null, headers: {} };
    const adopted = { sessionId: sessionId('session-1'), revision: '2025-11-25' } as const;
    const session = await upstream.resumeSession(owner, adopted);
    closeAfterTest(() => session.close());
    const heard = new Heard();
    const point = {
      sessionId: sessionId('session-1'),
      revision: '2025-11-25',
      lastEventId: 'e1',
    } as const;
    session.resumeCall(upstreamRequestId(7), point, heard, {}, [serverRequestId('old')]);
    await heard.until('replied');
    expect(heard.events.slice(1, 3)).toEqual([
      ['withdrawn', 'old'],
      ['asked', 'new', 'roots/list'],
    ]);
  });

  // Rule resumption-4.
  test('is lost when the server no longer knows it', async () => {
    const server = await legacyServer(
      (_received, response) => {
        const stream = eventStream(response);
        stream.raw('id: e1\nretry: 100\ndata:\n\n');
        stream.end();
      },
      {
        onGet: (received, response) => {
          if (received.headers['last-event-id'] === undefined) return void eventStream(response);
          json(response, 404, { error: { code: -32001, message: 'Session not found' } });
        },
      },
    );
    const { heard } = call(await open(upstreamOf(server)));
    expect(await heard.until('lost')).toEqual(['lost', 'session_gone']);
  });
});
