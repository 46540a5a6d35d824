/** Clients that listen to their tasks. */
import { describe, expect, test } from 'vitest';
import { send } from '../../fixtures/clients/modern-client.ts';
import { aboutTask, TASK_CLIENT } from '../../fixtures/clients/task-client.ts';
import { legacyGateway } from '../../fixtures/gateways/legacy-gateway.ts';
import { askName } from '../../fixtures/servers/legacy-server.ts';
import { answerTo, never, taskOf } from '../../fixtures/gateways/promoting-gateway.ts';

describe('a listener', () => {
  const listening = (taskIds: string[]) => ({ notifications: { taskIds } });

  // Rule promoted-15 (tasks extension, "Task Status Notifications"): A listener that names tasks gets each change of
  // those of its caller.
  test('is told what tasks/get would show, each time that a task changes', async () => {
    const { url, taskId } = await taskOf(async (call) => askName(call), {
      tasks: { promote: 'interactive' },
    });
    const heard: any[] = []; // eslint-disable-line @typescript-eslint/no-explicit-any
    const leaving = new AbortController();
    const asked = Promise.withResolvers<object>();
    const ended = Promise.withResolvers<void>();
    const listener = send(url, 'subscriptions/listen', listening([taskId, 'unknown']), {
      capabilities: TASK_CLIENT,
      signal: leaving.signal,
      onMessage: ({ method, params }) => {
        heard.push({ method, params });
        if (params?.status === 'input_required') asked.resolve(params);
        if (params?.status === 'completed') ended.resolve();
      },
    }).catch(() => {});
    const question = (await asked.promise) as { inputRequests: object };
    await aboutTask(url, 'update', taskId, answerTo(question, 'Ada'));
    await ended.promise;
    const { result } = (await aboutTask(url, 'get', taskId)).response;
    leaving.abort();
    await listener;
    expect(heard[0].params.notifications).toEqual({ taskIds: [taskId] });
    expect(new Set(heard.slice(1).map(({ method }) => method))).toEqual(
      new Set(['notifications/tasks']),
    );
    const { _meta: _id, ...last } = heard.at(-1).params;
    const { resultType: _type, ...shown } = result;
    expect(last).toEqual(shown);
  });

  // Rule promoted-10.
  test('that names tasks must declare the extension', async () => {
    const { url } = await legacyGateway({ tools: { work: never } });
    const { status, response } = await send(url, 'subscriptions/listen', listening(['any']));
    expect([status, response.error.code]).toEqual([400, -32021]);
  });
});
