/** Probes of servers that do what others do not. */
import { describe, expect, test } from 'vitest';
import {
  eventStream,
  json,
  legacyServer,
  ScriptedServer,
  INITIALIZE_RESULT,
  type Answer,
} from '../../../fixtures/servers/scripted-server.ts';
import { kept, legacy, probing, report } from '../../../fixtures/probing.ts';

// Rule sessions-22.
test.each([
  ['streamable-http', 'refused', 'refused'],
  ['http-sse', 'refused', 'refused'],
  ['streamable-http', 'crash', 'broke'],
  ['http-sse', 'crash', 'broke'],
] as const)(
  'a server that can have one session, over %s (%s), is found out, and the file says so',
  async (transport, secondSession, second) => {
    const server = await legacy({ transport, secondSession });
    const found = await report(server.url);
    expect(found.sessions.second).toBe(second);
    expect(found.advice.config).toMatchObject({ routes: [{ sessions: { max: 1 } }] });
    expect(found.advice.notes.join(' ')).toContain('so the file above sets sessions.max: 1');
    const { out } = await probing(server.url);
    expect(out).toContain('one at a time');
  },
);

describe('odd servers', () => {
  /** Answers pings and lists with events or JSON, and GETs with `Last-Event-ID` as the test says. */
  const answering: Answer = ({ body }, response) =>
    json(response, 200, { jsonrpc: '2.0', id: body.id, result: { tools: [] } });

  test('that responds with JSON has no events to resume', async () => {
    const server = kept(await legacyServer(answering));
    expect(await report(server.url)).toMatchObject({
      sessions: { kind: 'session-id', withoutId: 'accepted' },
      standaloneStream: { offered: 'no', httpStatus: 405 },
      resumption: { eventIds: 'no-events', lastEventId: 'not-tried' },
    });
  });

  const withEvents: Answer = ({ body }, response) => {
    const stream = eventStream(response);
    stream.send({ jsonrpc: '2.0', id: body.id, result: { tools: [] } }, `event-of-${body.id}`);
    stream.end();
  };

  test('that gives ids and refuses to resume is not called resumable', async () => {
    const server = kept(await legacyServer(withEvents));
    expect(await report(server.url)).toMatchObject({
      resumption: { eventIds: 'seen', lastEventId: 'refused', httpStatus: 405 },
      advice: { releaseWhenResumable: 'impossible' },
    });
  });

  test('that repeats what was missed is resumable, and the advice says what that allows', async () => {
    const replies = new Map<string, unknown>();
    const primed: Answer = ({ body }, response) => {
      const reply = { jsonrpc: '2.0', id: body.id, result: { tools: [] } };
      replies.set(`before-${body.id}`, reply);
      const stream = eventStream(response);
      stream.raw(`id: before-${body.id}\ndata:\n\n`);
      stream.send(reply, `event-of-${body.id}`);
      stream.end();
    };
    const onGet: Answer = ({ headers }, response) => {
      const missed = replies.get(String(headers['last-event-id']));
      if (missed === undefined) return void response.writeHead(405).end();
      eventStream(response).send(missed);
    };
    const server = kept(await legacyServer(primed, { onGet }));
    expect(await report(server.url)).toMatchObject({
      resumption: { eventIds: 'seen', lastEventId: 'replayed', httpStatus: 200 },
      advice: {
        gatewayNeeded: true,
        releaseWhenResumable: 'possible',
        config: {
          routes: [
            {
              path: '/mcp',
              upstream: { url: server.url, transport: 'streamable-http' },
            },
          ],
        },
      },
    });
  });

  test('that opens a stream and repeats nothing is reported as unproven', async () => {
    const onGet: Answer = (_received, response) => {
      eventStream(response).end();
    };
    const server = kept(await legacyServer(withEvents, { onGet }));
    expect(await report(server.url)).toMatchObject({
      resumption: { eventIds: 'seen', lastEventId: 'opened' },
      advice: { releaseWhenResumable: 'unproven' },
    });
  });

  test('that hands out no session id gets advice about its state', async () => {
    const server = kept(await legacyServer(answering, { sessionId: null }));
    const found = await report(server.url);
    expect(found).toMatchObject({
      sessions: { kind: 'none', withoutId: 'not-tried', deleteStatus: null, second: 'not-tried' },
      advice: { statefulWithoutSessionId: true, releaseWhenResumable: 'impossible' },
    });
    expect(found.advice.notes.join()).toContain('upstream.statefulWithoutSessionId');
    expect(server.received.map(({ method }) => method)).not.toContain('DELETE');
  });

  test('that never replies to a list is still described, and its session is ended', async () => {
    const server = kept(await legacyServer(() => {}));
    expect(await report(server.url, '--timeout', '400ms')).toMatchObject({
      revision: '2025-11-25',
      tools: { declared: true, items: [], problem: 'timed out' },
      resumption: { eventIds: 'no-answer' },
    });
    expect(server.received.at(-1)).toMatchObject({ method: 'DELETE' });
  });

  test('whose lists have no end is read up to a bound', async () => {
    const tools = Array.from({ length: 100 }, (_, index) => ({
      name: `tool-${index}`,
      inputSchema: { type: 'object' },
    }));
    let page = 0;
    const endless: Answer = ({ body }, response) =>
      json(response, 200, {
        jsonrpc: '2.0',
        id: body.id,
        result: body.method === 'ping' ? {} : { tools, nextCursor: `page-${(page += 1)}` },
      });
    const server = kept(await legacyServer(endless));
    const { tools: found } = await report(server.url);
    expect(found.items).toHaveLength(1000);
    expect(found.truncated).toBe(true);
  });

  test('that does not reply to server/discover is still detected', async () => {
    const server = kept(
      await ScriptedServer.start(({ method, body }, response) => {
        if (method !== 'POST') return void response.writeHead(405).end();
        if (body.method === 'server/discover') return;
        if (body.id === undefined) return void response.writeHead(202).end();
        const result = body.method === 'initialize' ? INITIALIZE_RESULT : { tools: [] };
        json(response, 200, { jsonrpc: '2.0', id: body.id, result });
      }),
    );
    expect((await report(server.url)).transport).toBe('streamable-http');
  });

  test('that sends control sequences cannot write to the terminal', async () => {
    const evil = 'evil\u001b]0;title\u0007\u001b[2J\u202egpj.exe\r\nsecond line';
    const server = kept(
      await legacyServer(({ body }, response) =>
        json(response, 200, {
          jsonrpc: '2.0',
          id: body.id,
          result: {
            tools: [{ name: evil, description: evil, inputSchema: { type: 'object' } }],
          },
        }),
      ),
    );
    const { out } = await probing(server.url);
    expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
    const found = await report(server.url);
    expect(found.tools.items[0]?.name).toBe(evil);
  });
});
