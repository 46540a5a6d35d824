/** Tools that their server runs as tasks, for clients that know tasks. */
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import type { GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { gatewayBefore } from '../../fixtures/gateways/test-gateway.ts';
import { aboutTask, callForTask, untilTask } from '../../fixtures/clients/task-client.ts';
import { answersOf, text } from '../../fixtures/gateways/replica-testbed.ts';
import { legacyGateway } from '../../fixtures/gateways/legacy-gateway.ts';
import { turnsUntil } from '../../fixtures/manual-clock.ts';
import { askName } from '../../fixtures/servers/legacy-server.ts';
import {
  eventStream,
  json,
  legacyServer as scriptedServer,
} from '../../fixtures/servers/scripted-server.ts';
import { answerTo } from '../../fixtures/gateways/promoting-gateway.ts';

describe('a tool that its server runs as a task', () => {
  const tasks = { work: { taskSupport: 'required', ttl: 120_000 } } as const;

  // Rule promoted-14: A call that the server runs as a task is a task for the client, with the server's time to live
  // and poll interval.
  test('becomes a task at once, with what its server says of it', async () => {
    const { url } = await legacyGateway({ tools: { work: async (call) => askName(call) }, tasks });
    const created = await callForTask(url, 'work');
    expect(created.response.result).toMatchObject({ resultType: 'task', ttlMs: 120_000 });
    const { taskId } = created.response.result;
    const asked = await untilTask(url, taskId, ['input_required']);
    await aboutTask(url, 'update', taskId, answerTo(asked, 'Ada'));
    const done = await untilTask(url, taskId, ['completed']);
    expect(done.result.content).toEqual([{ type: 'text', text: 'Ada' }]);
    expect(JSON.stringify(done)).not.toContain('related-task');
  });

  /** A server that asks before it creates its task, when it is told to. */
  async function askingFirst(overrides: GatewayOverrides = {}) {
    const reply = (id: unknown, result: object) => ({ jsonrpc: '2.0', id, result });
    const at = '2026-11-22T07:00:00Z';
    const status = { status: 'working', createdAt: at, lastUpdatedAt: at, ttl: 120_000 };
    const answered = Promise.withResolvers<() => void>();
    const followed: ServerResponse[] = [];
    let create = () => {};
    const server = await scriptedServer(
      ({ body }, response) => {
        const execution = { taskSupport: 'required' };
        const tool = { name: 'work', inputSchema: { type: 'object' }, execution };
        if (body.method === 'tools/list')
          return json(response, 200, reply(body.id, { tools: [tool] }));
        if (body.method === 'tasks/result') return void followed.push(response);
        if (body.method !== 'tools/call') return void eventStream(response);
        const stream = eventStream(response);
        const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } };
        const params = { message: 'Who?', requestedSchema };
        stream.send({ jsonrpc: '2.0', id: 'q', method: 'elicitation/create', params });
        create = () => stream.send(reply(body.id, { task: { taskId: 'theirs', ...status } }));
      },
      {
        capabilities: { tasks: { requests: { tools: { call: {} } } } },
        onResponse: (_received, response) =>
          answered.resolve(() => void response.writeHead(202).end()),
      },
    );
    const { gateway } = await gatewayBefore(server, overrides);
    const asked = await callForTask(gateway.url, 'work');
    create();
    await turnsUntil(() => followed.length === 1);
    const retried = callForTask(gateway.url, 'work', answersOf(asked, 'Ada'));
    return { retried, followed, acceptAnswer: await answered.promise };
  }

  // Rule promoted-14.
  test('becomes one with the retry if its client was asked before the task was there', async () => {
    const { retried, followed, acceptAnswer } = await askingFirst();
    for (const response of followed) eventStream(response);
    acceptAnswer();
    const { response } = await retried;
    expect(response.result).toMatchObject({ resultType: 'task', ttlMs: 120_000 });
  });

  // Rule promoted-14.
  test('becomes one as soon as its stream is back, if that broke meanwhile', async () => {
    const { retried, followed, acceptAnswer } = await askingFirst({
      tasks: { afterMs: 3_600_000 },
    });
    followed[0]?.destroy();
    await turnsUntil(() => followed.length === 2);
    // The head of the second response is held back.
    acceptAnswer();
    const { response } = await retried;
    expect(response.result).toMatchObject({ resultType: 'task', ttlMs: 120_000 });
  });

  test('stays a call if the operator says so', async () => {
    const { url } = await legacyGateway(
      { tools: { work: async () => 'done' }, tasks },
      { tasks: { promote: 'never' } },
    );
    expect(text(await callForTask(url, 'work'))).toBe('done');
  });
});
