/** The limits on sessions, on the wire: of one process, and of all workers of a gateway together. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { callTool, type SendOptions } from '../../fixtures/clients/modern-client.ts';
import { answersOf, reasonOf, replica, text } from '../../fixtures/gateways/replica-testbed.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';

const NAMES = ['ada', 'bob', 'carl', 'dan', 'eve', 'fay', 'gus', 'hal'];

describe.each([1, 2])('with %i workers', (workers) => {
  async function stage(sessions: object, config: object = {}) {
    const { server } = await countingServer();
    const gateway = await replica(server, {
      relay: false,
      route: { sessions },
      config: { workers, ...config },
    });
    const call = (name: string, headers: Record<string, string>, more: object = {}) => {
      // Each request opens a connection, so that it reaches any worker.
      const options: SendOptions = { headers: { connection: 'close', ...headers } };
      return callTool(gateway.url, name, more, options);
    };
    const open = async () => {
      // The delay after which a worker knows the counts of the others.
      await sleep(100);
      return gateway.metric('mrtr_gateway_sessions{route="mcp"}');
    };
    return { call, open };
  }

  const as = (name: string) => ({ authorization: `Bearer ${name}` });

  // Rule sessions-13.
  test('sessions.max holds, and an idle session makes room for the next caller', async () => {
    const { call, open } = await stage({ max: 1 });
    for (const name of NAMES) {
      expect(text(await call('count', as(name)))).toBe('1');
      expect(await open()).toBe(1);
    }
    expect(text(await call('count', as('hal')))).toBe('2');
  });

  // Rule sessions-13.
  test('sessions.maxPerPrincipal holds, whatever the conversation', async () => {
    const { call, open } = await stage(
      { maxPerPrincipal: 2, key: { header: 'x-conversation' } },
      { identity: { source: 'header', header: 'x-user' } },
    );
    for (const name of NAMES) {
      const headers = { 'x-user': 'ada', 'x-conversation': name };
      expect(text(await call('count', headers))).toBe('1');
      expect(await open()).toBeLessThanOrEqual(2);
    }
    expect(text(await call('count', { 'x-user': 'bob', 'x-conversation': 'ada' }))).toBe('1');
    expect(await open()).toBe(3);
  });

  // Rule sessions-13.
  test('a call waits for a session that is in use, and fails if none is free in time', async () => {
    const { call } = await stage({ max: 1, queue: { wait: '1s' } });
    const asked = await call('ask', as('ada'));
    const refused = await call('count', as('bob'));
    expect(reasonOf(refused)).toBe('upstream_busy');
    expect(refused.response.error.data.mayHaveActed).toBe('no');
    const { requestState, inputResponses } = answersOf(asked, 'Ada');
    expect(text(await call('ask', as('ada'), { requestState, inputResponses }))).toBe('Ada 1');
    expect(text(await call('count', as('bob')))).toBe('1');
  });
});
