/** A result of 3 MiB pictures, with data that only few parsers take: it comes out whole, whichever way it takes. */
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { accept, callTool, type Exchanged } from '../fixtures/clients/modern-client.ts';
import { aboutTask, callForTask, untilTask } from '../fixtures/clients/task-client.ts';
import {
  type GatewayProcess,
  type GatewayProcessOptions,
} from '../fixtures/gateways/gateway-process.ts';
import { redisServer, replica, replicas } from '../fixtures/gateways/replica-testbed.ts';
import { RELAY_WAYS } from '../fixtures/relay-ways.ts';
import { ODD, PICTURE } from '../fixtures/servers/odd-data.ts';
import { oddServer, oddSseServer } from '../fixtures/servers/odd-data-over-http.ts';

const PROGRAM = fileURLToPath(new URL('../fixtures/servers/odd-data.ts', import.meta.url));
const STDIO = { url: undefined, command: process.execPath, args: [PROGRAM] };

function answersTo({ response }: Exchanged) {
  const { requestState, inputRequests } = response.result;
  const [key = ''] = Object.keys(inputRequests);
  return { requestState, inputResponses: { [key]: accept({ name: 'Ada' }) } };
}

/** Calls the tool at one gateway, and answers its question at another one. */
async function pictureFrom(one: GatewayProcess, other = one) {
  const retry = answersTo(await callTool(one.url, 'picture'));
  return { retry, result: await callTool(other.url, 'picture', retry) };
}

function expectWhole({ response, text }: Exchanged): void {
  expect(response.error).toBeUndefined();
  expect(text.includes(`"content":${PICTURE}`)).toBe(true);
  expect(text.includes(`"structuredContent":${ODD}`)).toBe(true);
}

describe('a picture of 3 MiB, and data that only few parsers take,', () => {
  test.each<[string, () => Promise<Partial<GatewayProcessOptions>>]>([
    ['HTTP', async () => ({ upstream: await oddServer() })],
    ['HTTP+SSE', async () => ({ upstream: await oddSseServer() })],
    ['stdio', async () => ({ route: { upstream: STDIO } })],
  ])('reach the client over %s, after a question', async (_transport, options) => {
    const { upstream = 'http://127.0.0.1:9', ...rest } = await options();
    const gateway = await replica({ url: upstream }, { relay: false, ...rest });
    expectWhole((await pictureFrom(gateway)).result);
  });

  test('reach the client as a task', { tags: ['redis'] }, async () => {
    const { url: redis } = await redisServer();
    const route = { tasks: { promote: 'interactive' } };
    const server = { url: await oddServer() };
    const [one, other] = await replicas(server, 2, { redis, route });
    const { taskId } = (await callForTask(one.url, 'picture')).response.result;
    const { inputRequests } = await untilTask(other.url, taskId, ['input_required']);
    const keys = Object.keys(inputRequests);
    const inputResponses = Object.fromEntries(keys.map((key) => [key, accept({ name: 'Ada' })]));
    await aboutTask(other.url, 'update', taskId, { inputResponses });
    await untilTask(one.url, taskId, ['completed']);
    expectWhole(await aboutTask(other.url, 'get', taskId));
    await one.kill();
    await untilTask(other.url, taskId, ['completed']);
    expectWhole(await aboutTask(other.url, 'get', taskId));
  });

  test(
    'reach the client from Redis, when the replica that had the call is gone',
    { tags: ['redis'] },
    async () => {
      const { url: redis } = await redisServer();
      const [one, other] = await replicas({ url: await oddServer() }, 2, { redis });
      const { retry, result } = await pictureFrom(one);
      expectWhole(result);
      await one.kill();
      expectWhole(await callTool(other.url, 'picture', retry));
    },
  );

  for (const { way, tags, options } of RELAY_WAYS) {
    test(`reach the client relayed ${way}`, { tags }, async () => {
      const [one, other] = await replicas({ url: await oddServer() }, 2, await options());
      expectWhole((await pictureFrom(one, other)).result);
    });
  }
});
