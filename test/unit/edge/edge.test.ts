/** The handler of a route where what stands behind it fails in a way that nobody foresaw. */
import { UNBOUNDED } from '../../../src/upstream/size-limits.ts';
import { createServer } from 'node:http';
import { describe, expect, test } from 'vitest';
import { ModernEndpoint } from '../../../src/edge/edge.ts';
import type { EdgeOptions, EdgeRoute } from '../../../src/edge/options.ts';
import { readModernRequest } from '../../../src/edge/request/modern-request.ts';
import { OpenResponses, WriteBurst } from '../../../src/lib/http.ts';
import { RecordedLog } from '../../fixtures/gateways/gateway.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { modernBody, modernHeaders } from '../../fixtures/clients/modern-client.ts';
import { listen, portOf } from '../../fixtures/passthrough/pass-through.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const DONE = { kind: 'result', result: { resultType: 'complete' } } as const;

const POLICY = {
  legacyClients: 'reject',
  supportedVersions: () => ['2026-07-28'],
} as const;

async function served(changes: Partial<EdgeRoute>, read?: EdgeOptions['read']) {
  const log = new RecordedLog();
  const openResponses = new OpenResponses();
  const route: EdgeRoute = {
    id: 'mcp',
    path: '/mcp',
    refusalOf: () => null,
    isModern: async () => false,
    published: (reply) => reply,
    identify: async () => ({
      kind: 'anonymous',
      conversation: null,
      principal: null,
      principalKey: '',
      credentialsKey: '',
      headers: {},
    }),
    capabilities: () => null,
    parameterHeaders: async () => null,
    discover: async () => DONE,
    forward: async () => DONE,
    call: async () => DONE,
    task: async () => DONE,
    listen: async () => DONE,
    passThrough: async () => {},
    isLegacyNow: async () => false,
    ...changes,
  };
  const endpoint = new ModernEndpoint(route, {
    maxBodyBytes: 1_000_000,
    holdBytes: () => UNBOUNDED,
    legacyRefused: () => {},
    beforeBody: () => {},
    read: read ?? ((request, body) => readModernRequest(request, body, POLICY)),
    maxBufferedBytes: 1_000_000,
    openResponses,
    writes: new WriteBurst(() => openResponses.count <= 1),
    clock: new ManualClock(),
    log,
    tracer: null,
    observe: () => {},
  });
  const server = createServer((request, response) => endpoint.post(request, response));
  await listen(server);
  const origin = `http://127.0.0.1:${portOf(server)}`;
  stopAfterTest(async () => {
    server.closeAllConnections();
    server.close();
  });
  const post = async (method: string, params: object = {}) => {
    const answer = await fetch(`${origin}/mcp`, {
      method: 'POST',
      headers: modernHeaders(method, params),
      body: JSON.stringify(modernBody(method, params, { id: 7 })),
    });
    return { status: answer.status, body: await answer.json() };
  };
  return { post, log, openResponses };
}

const broken = async () => {
  throw new TypeError('the detail');
};

describe('a defect of ours', () => {
  // Rule responses-5.
  test.each<[string, object, Partial<EdgeRoute>]>([
    ['server/discover', {}, { discover: broken }],
    ['tools/call', { name: 'n' }, { call: broken }],
    ['tools/list', {}, { forward: broken }],
    ['subscriptions/listen', { notifications: {} }, { listen: broken }],
  ])(
    'in %s is answered in-band without its detail, and told in the log',
    async (method, params, changes) => {
      const { post, log, openResponses } = await served(changes);
      const { status, body } = await post(method, params);
      expect({ status, body }).toEqual({
        status: 200,
        body: {
          jsonrpc: '2.0',
          id: 7,
          error: {
            code: -32603,
            message:
              'Internal error. The server may have acted on this call: check whether it took effect before you call again',
            data: {
              reason: 'internal_error',
              mayHaveActed: 'unknown',
              help: 'mrtr-gateway/docs/operate/errors.md#internal_error',
            },
          },
        },
      });
      expect(log.named('edge.failed')).toEqual([
        { route: 'mcp', problem: 'TypeError: the detail' },
      ]);
      expect(openResponses.count).toBe(0);
    },
  );

  // Rule responses-5.
  test('in reading a request gets 500, and the process goes on', async () => {
    const { post, log } = await served({}, () => {
      throw new TypeError('the detail');
    });
    for (const id of [1, 2]) {
      const { status, body } = await post('tools/call', { name: `n${id}` });
      expect(status).toBe(500);
      expect(JSON.stringify(body)).not.toContain('the detail');
    }
    expect(log.named('edge.failed')).toHaveLength(2);
  });

  // Rule responses-5.
  test('in telling who calls gets 500, and the process goes on', async () => {
    const { post, log } = await served({ identify: broken });
    expect(await post('tools/call', { name: 'n' })).toMatchObject({ status: 500 });
    expect(log.named('edge.failed')).toHaveLength(1);
  });

  // Rule responses-5.
  test('in a response that has begun cuts it, and the process goes on', async () => {
    const { post, log, openResponses } = await served({
      call: async (_request, waiter) => {
        waiter.notify('notifications/message', { level: 'info', data: 'begun' });
        return DONE;
      },
      published: () => {
        throw new TypeError('the detail');
      },
    });
    await expect(post('tools/call', { name: 'n' })).rejects.toThrow('terminated');
    expect(log.named('edge.failed')).toEqual([{ route: 'mcp', problem: 'TypeError: the detail' }]);
    expect(openResponses.count).toBe(0);
  });
});
