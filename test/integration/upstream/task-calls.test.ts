/** Several calls in one session that run as tasks: each message about a task is for the call that runs it. */
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../../src/lib/clock.ts';
import { serverRequestId } from '../../../src/protocol/ids.ts';
import { TaskCall } from '../../../src/upstream/session/tasks/task-call.ts';
import type { Session } from '../../../src/upstream/session/session.ts';
import { eventStream, json, legacyServer } from '../../fixtures/servers/scripted-server.ts';
import { Heard, open, upstreamOf } from '../../fixtures/servers/upstream-testbed.ts';

const RELATED = 'io.modelcontextprotocol/related-task';
const ACCEPTED = { result: { action: 'accept', content: {} } };
const task = (taskId: string) => ({
  taskId,
  status: 'working',
  createdAt: '2026-11-22T07:00:00Z',
  lastUpdatedAt: '2026-11-22T07:00:00Z',
  ttl: null,
});
const elicitation = (id: string, taskId: string) => ({
  jsonrpc: '2.0',
  id,
  method: 'elicitation/create',
  params: {
    message: 'Sure?',
    requestedSchema: { type: 'object', properties: {} },
    _meta: { [RELATED]: { taskId } },
  },
});

const DONE = { content: [{ type: 'text', text: 'done' }] };

function start(session: Session) {
  const listener = new Heard();
  const toolCall = {
    params: (progressToken: string | number) => ({ name: 't', _meta: { progressToken } }),
    ttlMs: 60_000,
    demandsTask: true,
    isSilent: false,
  };
  const call = TaskCall.start({ session, clock: systemClock, listener }, toolCall, {});
  return { call, heard: listener };
}

/** A session whose server makes tasks task-1, task-2 and so on, and a stream that names none of them. */
async function stage() {
  let created = 0;
  let standalone: ReturnType<typeof eventStream> | undefined;
  const following = new Map<string, ReturnType<typeof eventStream>>();
  const server = await legacyServer(
    ({ body }, response) => {
      if (body.method !== 'tools/call') {
        return void following.set(body.params.taskId, eventStream(response));
      }
      created += 1;
      json(response, 200, {
        jsonrpc: '2.0',
        id: body.id,
        result: { task: task(`task-${created}`) },
      });
    },
    {
      onGet: (_received, response) => void (standalone = eventStream(response)),
      capabilities: { tasks: { requests: { tools: { call: {} } } } },
    },
  );
  const session = await open(upstreamOf(server, { transport: 'streamable-http' }));
  const one = start(session);
  const isFollowed = (taskId: string) =>
    server.saw(({ body }) => body?.method === 'tasks/result' && body.params.taskId === taskId);
  await isFollowed('task-1');
  const other = start(session);
  await isFollowed('task-2');
  return {
    server,
    one,
    other,
    /** Sends a message on the stream that names no call. */
    send: (message: object) => standalone?.send(message),
    /** Sends a message on the stream of a task. */
    sendOn: (taskId: string, message: object) => following.get(taskId)?.send(message),
    replyTo: (id: string) => server.saw(({ body }) => body?.id === id && !('method' in body)),
  };
}

describe('a question of a task', () => {
  // Rule tasks-3.
  test('on a stream that names no call is asked in the call that runs the task', async () => {
    const { one, other, send, replyTo } = await stage();
    send(elicitation('later', 'task-2'));
    send(elicitation('first', 'task-1'));
    expect(await other.heard.until('asked')).toEqual(['asked', 'later', 'elicitation/create']);
    expect(await one.heard.until('asked')).toEqual(['asked', 'first', 'elicitation/create']);
    await other.call.respond(serverRequestId('later'), ACCEPTED, {});
    const { body } = await replyTo('later');
    expect(body.result).toEqual({ ...ACCEPTED.result, _meta: { [RELATED]: { taskId: 'task-2' } } });
  });

  // Rule tasks-3.
  test('on the stream of another task is asked in the call that runs the task', async () => {
    const { one, other, sendOn } = await stage();
    sendOn('task-1', elicitation('later', 'task-2'));
    await other.heard.until('asked');
    expect(one.heard.events).toEqual([]);
  });

  // Rule tasks-3.
  test('that no call runs is declined, and nobody is asked', async () => {
    const { one, other, send, replyTo } = await stage();
    send(elicitation('stray', 'task-3'));
    expect((await replyTo('stray')).body.result).toEqual({ action: 'cancel' });
    expect([...one.heard.events, ...other.heard.events]).toEqual([]);
  });
});

// Rule tasks-3.
test('progress and log messages of a task reach the call that runs it, on whatever stream', async () => {
  const { server, one, other, send } = await stage();
  const tokens = server.received
    .filter(({ body }) => body?.method === 'tools/call')
    .map(({ body }) => body.id);
  const method = 'notifications/progress';
  send({ jsonrpc: '2.0', method, params: { progressToken: tokens[1], progress: 1 } });
  await other.heard.until('notified');
  expect(one.heard.events).toEqual([]);
  const params = { level: 'info', data: 'x', _meta: { [RELATED]: { taskId: 'task-1' } } };
  send({ jsonrpc: '2.0', method: 'notifications/message', params });
  expect(await one.heard.until('notified')).toEqual(['notified', 'notifications/message']);
});

test.each([
  { sent: 'a page of a server that starts', body: '{"status":"starting"}' },
  { sent: 'the reply to another request', body: '{"jsonrpc":"2.0","id":"other","result":{}}' },
])(
  'the result of a task is asked for again if $sent came in its place',
  async ({ body: wrong }) => {
    let asked = 0;
    const server = await legacyServer(
      ({ body: { id, method } }, response) => {
        const isCall = method === 'tools/call';
        asked += isCall ? 0 : 1;
        if (asked === 1)
          return void response.setHeader('content-type', 'application/json').end(wrong);
        const result = isCall ? { task: task('task-1') } : DONE;
        json(response, 200, { jsonrpc: '2.0', id, result });
      },
      { capabilities: { tasks: { requests: { tools: { call: {} } } } } },
    );
    const session = await open(upstreamOf(server, { transport: 'streamable-http' }));
    const { heard } = start(session);
    expect(await Promise.race([heard.until('replied'), heard.until('lost')])).toEqual([
      'replied',
      { result: DONE },
    ]);
  },
);
