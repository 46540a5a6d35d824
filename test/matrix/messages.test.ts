/** What servers of every revision say beside their answers: progress, log messages, pings and noise. */
import { describe, expect, test } from 'vitest';
import { callTool, type SendOptions } from '../fixtures/clients/modern-client.ts';
import { hurriedClock } from '../fixtures/hurried-clock.ts';
import { revisionStage, textOf, type RevisionStage } from '../fixtures/revisions/testbed.ts';
import { SERVERS, streamsOf, TITLE } from '../fixtures/revisions/table.ts';
import type { On, Said } from '../fixtures/revisions/tools.ts';

const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];
const LOGS: Said[] = LEVELS.map((level) => ({
  method: 'notifications/message',
  params: { level, logger: 'db', data: { text: level }, 'com.example/extra': 1 },
}));

const progress = (value: number, more: object = {}): Said => ({
  method: 'notifications/progress',
  params: { progressToken: '{token}', progress: value, ...more },
});

/**
 * Lets a tool say that, and lets it end only when its last word has reached the client: beside the
 * call's own stream nothing else orders the two.
 */
function say(stage: RevisionStage, said: readonly Said[], on: On, meta: object, awaits = 0) {
  let heard = 0;
  const options: SendOptions = {
    meta,
    onMessage: () => {
      heard += 1;
      if (heard === awaits) stage.server.release();
    },
  };
  const holds = awaits > 0;
  return callTool(stage.url, 'say', { arguments: { said, on, holds } }, options);
}

describe.each(SERVERS)(TITLE, (shape) => {
  const { revision } = shape;
  // A server that is told of a cancellation has two seconds to react.
  const stage = revisionStage(shape, { clock: hurriedClock(5) });
  const streams = streamsOf(shape);

  // Rule progress-2.
  test.each(streams)(
    'progress on the %s stream comes under the token of the client',
    async (on) => {
      const message = revision >= '2025-03-26' ? { message: 'half way' } : {};
      const said = [progress(1, { total: 2, ...message }), progress(2, { total: 2 })];
      const done = await say(stage, said, on, { progressToken: 'mine' }, 2);
      expect(done.notifications.map(({ method, params }) => ({ method, params }))).toEqual([
        {
          method: 'notifications/progress',
          params: { progressToken: 'mine', progress: 1, total: 2, ...message },
        },
        {
          method: 'notifications/progress',
          params: { progressToken: 'mine', progress: 2, total: 2 },
        },
      ]);
    },
  );

  // Rule progress-2.
  test('progress that goes back or stands still is left out', async () => {
    const said = [progress(1), progress(1), progress(0.5), progress(2)];
    const [on = 'own'] = streams;
    const done = await say(stage, said, on, { progressToken: 7 }, 2);
    expect(done.notifications.map(({ params }) => params.progress)).toEqual([1, 2]);
    expect(done.notifications.map(({ params }) => params.progressToken)).toEqual([7, 7]);
  });

  // Rule progress-2.
  test('without a token the client hears no progress', async () => {
    const [on = 'own'] = streams;
    const done = await say(stage, [progress(1), progress(2)], on, {});
    expect(done).toMatchObject({ streamed: false, notifications: [] });
    expect(textOf(done)).toBe('said');
  });

  // Rule logs-1 (logging, "Per-request log level"): A request without `io.modelcontextprotocol/logLevel` gets no log
  // messages, and sets no level.
  test('a client that asks for no log messages gets none, and no level is set', async () => {
    const [on = 'own'] = streams;
    const done = await say(stage, [...LOGS, progress(1)], on, { progressToken: 'mine' }, 1);
    expect(done.notifications.map(({ method }) => method)).toEqual(['notifications/progress']);
    expect(stage.server.all('logging/setLevel')).toEqual([]);
  });

  // Rule notifications-6: Any other notification stays out of the response.
  test.each(streams)(
    'unknown notifications on the %s stream are dropped, and do no harm',
    async (on) => {
      const said = [
        { method: 'notifications/com.example/unknown', params: { a: 1 } },
        { method: 'notifications/com.example/bare' },
        progress(1),
      ];
      const done = await say(stage, said, on, { progressToken: 'mine' }, 1);
      expect(done.notifications.map(({ method }) => method)).toEqual(['notifications/progress']);
      expect(textOf(done)).toBe('said');
    },
  );

  // Rule questions-8 (2025-11-25 ping, "Behavior Requirements"): Every `ping` of a server gets `{}`. Other requests
  // that are no questions get -32601.
  test.each(streams)(
    'a ping on the %s stream is answered, and the client hears nothing of it',
    async (on) => {
      const rounds = [[{ method: 'ping' }]];
      const done = await callTool(stage.url, 'ask', { arguments: { rounds, on } });
      expect(JSON.parse(textOf(done))).toEqual([[{ result: {} }]]);
      expect(done.notifications).toEqual([]);
    },
  );

  // Rule questions-8.
  test.each(streams)('a request on the %s stream that nobody knows is refused', async (on) => {
    const rounds = [[{ method: 'com.example/unknown', params: {} }]];
    const done = await callTool(stage.url, 'ask', { arguments: { rounds, on } });
    expect(JSON.parse(textOf(done))).toEqual([[{ error: -32601 }]]);
  });

  // Rule cancellation-1 (streamable-http, "Cancellation"): A client that closes its request cancels it: the server
  // gets `notifications/cancelled`, and 2 s until its stream is cut.
  // Rule responses-7 (streamable-http, "Cancellation"; cancellation, "Transport-Specific Cancellation"): A client
  // that closes its connection before the end of the response cancels the call. Closing it later cancels nothing.
  test('a client that leaves cancels the call at the server', async () => {
    const { log } = stage.gateway;
    const ended = log.named('call.ended').length;
    const leaving = new AbortController();
    const call = callTool(stage.url, 'wait', {}, { signal: leaving.signal });
    const aborted = expect(call).rejects.toThrow('abort');
    await stage.server.until(() => stage.server.all('tools/call').length === 1);
    leaving.abort();
    await aborted;
    await stage.server.until(() => stage.server.cancelled === 1);
    const [called] = stage.server.all('tools/call');
    const [cancelled] = stage.server.all('notifications/cancelled');
    expect(cancelled?.body.params.requestId).toBe(called?.body.id);
    await log.saw('call.ended', ended + 1);
    expect(log.named('call.ended').at(-1)).toMatchObject({ end: 'cancelled' });
  });
});

const WITH_ROOM = SERVERS.filter(({ answers }) => answers !== 'JSON');
describe.each(WITH_ROOM)(TITLE, (shape) => {
  const stage = revisionStage(shape);
  const streams = streamsOf(shape);

  // Rules logs-1, logs-3, logs-2.
  test('log messages come from the asked level on', async () => {
    const [on = 'own'] = streams;
    const asked = { 'io.modelcontextprotocol/logLevel': 'warning' };
    const done = await say(stage, LOGS, on, asked, 5);
    const heard = LOGS.slice(LEVELS.indexOf('warning'));
    expect(done.notifications).toEqual(heard.map((log) => ({ jsonrpc: '2.0', ...log })));
    const [set] = stage.server.all('logging/setLevel');
    expect(set?.body.params).toEqual({ level: 'warning' });
  });
});

const WITH_STREAM_BESIDE = SERVERS.filter(({ transport }) => transport === 'streamable-http');
describe.each(WITH_STREAM_BESIDE)(TITLE, (shape) => {
  const stage = revisionStage(shape);

  // Rule logs-3 (2025-11-25 transports, "Listening for Messages from the Server"): Over Streamable HTTP, log messages
  // come only from the stream of the call. Over HTTP+SSE they belong to the only call that can have sent them.
  test('log messages beside the stream of the call are not taken for the call’s', async () => {
    const meta = { progressToken: 'mine', 'io.modelcontextprotocol/logLevel': 'debug' };
    const done = await say(stage, [...LOGS, progress(1)], 'standalone', meta, 1);
    expect(done.notifications.map(({ method }) => method)).toEqual(['notifications/progress']);
  });
});

const WITH_STREAMS = SERVERS.filter(({ answers }) => answers === 'event stream');
describe.each(WITH_STREAMS)(`${TITLE} that keeps its events`, (shape) => {
  const stage = revisionStage({ ...shape, keepsEvents: true });

  // Rule resumption-1.
  test('goes on with a call whose stream was cut', async () => {
    const options: SendOptions = {
      meta: { progressToken: 'mine' },
      onMessage: ({ params }) => {
        if (params?.progress === 1) stage.server.cut();
      },
    };
    const args = { arguments: { said: [progress(1)], on: 'own', holds: true } };
    const call = callTool(stage.url, 'say', args, options);
    await stage.server.resumed();
    stage.server.release();
    expect(textOf(await call)).toBe('said');
    expect(stage.server.all('tools/call')).toHaveLength(1);
  });
});
