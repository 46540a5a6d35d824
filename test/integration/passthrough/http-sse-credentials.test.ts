/** Where the operator’s own headers go if the server speaks HTTP+SSE, whose clients post to a path that it names. */
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { describe, expect, test } from 'vitest';
import { startGateway } from '../../../src/app/gateway.ts';
import { RecordedLog, testConfig } from '../../fixtures/gateways/gateway.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import {
  answerTo,
  CREDENTIALS,
  gatewayTo,
  httpSse,
  NAMED,
  OPERATOR,
  type Respond,
  serverOf,
} from '../../fixtures/passthrough/credentials-testbed.ts';

describe('a server of HTTP+SSE', () => {
  /** Lets in who comes with all of these headers. */
  const guarded = (wanted: Record<string, string>): Respond => {
    const open = httpSse();
    return (seen, body, response) => {
      const known = Object.entries(wanted).every(([name, value]) => seen.headers[name] === value);
      if (known || seen.url.endsWith('/page')) open(seen, body, response);
      else response.writeHead(401).end();
    };
  };

  async function listedBy(url: string, headers: Record<string, string>): Promise<unknown> {
    const client = new Client({ name: 'legacy', version: '1.0.0' });
    stopAfterTest(() => client.close());
    const requestInit = { headers: { 'x-from': 'client', ...headers } };
    await client.connect(new SSEClientTransport(new URL(url), { requestInit }));
    return (await client.listTools()).tools;
  }

  test.each(['auto', 'http-sse'] as const)(
    'gets the operator’s headers where it wants messages posted as well, with transport %s',
    async (transport) => {
      const server = await serverOf(guarded({ authorization: OPERATOR }));
      const gateway = await gatewayTo(`${server.origin}/sse`, {
        ...NAMED,
        transport,
        upstream: CREDENTIALS.upstream,
      });
      expect(await listedBy(gateway.url, { 'x-user': 'ada' })).toEqual([]);
      const posted = server.ofClient().filter(({ method }) => method === 'POST');
      expect(posted.length).toBeGreaterThan(0);
      for (const { url, headers } of posted) {
        expect(url).toMatch(/^\/message\?sessionId=/);
        expect(headers.authorization).toBe(OPERATOR);
      }
    },
  );

  // Rule envelope-7.
  test('gets them nowhere else, and no messages without an identity', async () => {
    const server = await serverOf(guarded({ authorization: OPERATOR }));
    const { ask } = await gatewayTo(`${server.origin}/sse`, { ...NAMED, ...CREDENTIALS });
    expect((await ask('POST', '/message?sessionId=0')).status).toBe(401);
    expect(server.ofClient()).toEqual([]);
    const ada = { 'x-user': 'ada' };
    for (const [method, target] of [
      ['GET', '/message?sessionId=0'],
      ['POST', '/message/?sessionId=0'],
      ['POST', '/%6dessage?sessionId=0'],
      ['POST', '/sse'],
      ['POST', '/page'],
    ] as const) {
      await ask(method, target, ada);
      expect(server.ofClient().at(-1)).toMatchObject({ method, url: target });
      expect(server.ofClient().at(-1)?.headers).not.toHaveProperty('authorization');
    }
  });

  test('that wants the client’s credentials too gets both', async () => {
    const wanted = { 'x-api-key': 'operator', authorization: 'Bearer ada' };
    const server = await serverOf(guarded(wanted));
    const { url } = await gatewayTo(`${server.origin}/sse`, {
      transport: 'http-sse',
      upstream: { headers: { 'x-api-key': 'operator' } },
    });
    expect(await listedBy(url, { authorization: 'Bearer ada' })).toEqual([]);
    const posted = server.ofClient().filter(({ method }) => method === 'POST');
    expect(posted.map(({ headers }) => headers['x-api-key'])).toEqual(posted.map(() => 'operator'));
  });

  test('beside another one gets the headers of its own route', async () => {
    const server = await serverOf(httpSse());
    const config = testConfig(`${server.origin}/a/sse`, { transport: 'http-sse' });
    const routes = ['a', 'b'].flatMap((id) =>
      config.routes.map((route) => ({
        ...route,
        id,
        path: `/${id}`,
        upstream: {
          ...route.upstream,
          url: new URL(`/${id}/sse`, server.origin),
          headers: { 'x-api-key': id },
        },
      })),
    );
    const gateway = await startGateway({ ...config, routes }, { log: new RecordedLog() });
    stopAfterTest(() => gateway.close());
    for (const id of ['a', 'b']) {
      expect(await listedBy(new URL(`/${id}`, gateway.url).href, {})).toEqual([]);
    }
    const posted = server.ofClient().filter(({ method }) => method === 'POST');
    expect(
      new Set(posted.map(({ url, headers }) => `${url.slice(1, 2)} ${headers['x-api-key']}`)),
    ).toEqual(new Set(['a a', 'b b']));
  });

  describe('whose sessions have paths of their own', () => {
    /** Lets in who comes with the operator's key. `id` makes the path of each session. */
    const server = (id: (count: number) => string) => serverOf(keyed(id));
    const keyed = (id: (count: number) => string): Respond => {
      const streams = new Map<string, ServerResponse>();
      return ({ method, url, headers }, body, response) => {
        if (headers['x-api-key'] !== 'operator') return void response.writeHead(401).end();
        if (method === 'GET' && url === '/sse') {
          const endpoint = `/messages/${id(streams.size + 1)}`;
          streams.set(endpoint, response);
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          return void response.write(`event: endpoint\ndata: ${endpoint}\n\n`);
        }
        const stream = streams.get(url);
        if (method !== 'POST' || stream === undefined) return void response.writeHead(405).end();
        response.writeHead(202).end();
        const answer = answerTo(body);
        if (answer !== null) stream.write(`event: message\ndata: ${JSON.stringify(answer)}\n\n`);
      };
    };
    const overrides = {
      transport: 'http-sse',
      upstream: { headers: { 'x-api-key': 'operator' } },
    } as const;
    /** The path that is told on a stream, which stays open until the test is over. */
    async function openedAt(url: string) {
      const leaving = new AbortController();
      stopAfterTest(async () => leaving.abort());
      const headers = { accept: 'text/event-stream' };
      const { body } = await fetch(url, { headers, signal: leaving.signal });
      const first = await body?.getReader().read();
      const path = /data: (\S+)/.exec(new TextDecoder().decode(first?.value))?.[1] ?? '';
      return { path, leave: () => leaving.abort() };
    }
    async function posted(path: string, gatewayUrl: string): Promise<number> {
      const { status } = await fetch(new URL(path, gatewayUrl), {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
      });
      return status;
    }
    const inWords = (count: number) => ['none', 'one', 'two', 'three'][count] ?? 'many';

    // Rule passthrough-10 (2024-11-05 transports, "HTTP with SSE"): Messages to the paths that an HTTP+SSE server
    // announced on open streams get `upstream.headers`.
    test.each([
      ['numbers', String],
      ['words', inWords],
    ])('gets the operator’s headers for each session that is open: %s', async (_title, id) => {
      const { origin } = await server(id);
      const { url } = await gatewayTo(`${origin}/sse`, overrides);
      const sessions = [await openedAt(url), await openedAt(url)];
      expect(new Set(sessions.map(({ path }) => path)).size).toBe(2);
      for (const { path } of sessions) expect(await posted(path, url)).toBe(202);
      expect(await listedBy(url, {})).toEqual([]);
    });

    // Rule passthrough-10.
    test('gets them no longer when the stream of the session is over', async () => {
      const { origin } = await server(inWords);
      const { url } = await gatewayTo(`${origin}/sse`, overrides);
      const { path, leave } = await openedAt(url);
      expect(await posted(path, url)).toBe(202);
      leave();
      await expect.poll(() => posted(path, url)).toBe(401);
    });

    // Rule passthrough-10.
    test.each([
      ['numbers', String, 202],
      ['UUIDs', () => randomUUID(), 202],
      ['words', inWords, 401],
    ])(
      'gets them through a replica that has not seen the stream where ids can be told: %s',
      async (_title, id, status) => {
        const { origin } = await server(id);
        const one = await gatewayTo(`${origin}/sse`, overrides);
        const other = await gatewayTo(`${origin}/sse`, overrides);
        const { path } = await openedAt(one.url);
        expect(await posted(path, other.url)).toBe(status);
      },
    );

    // Rule passthrough-10.
    test('gets them on no other path', async () => {
      const { origin, ofClient } = await server(String);
      const { url, ask } = await gatewayTo(`${origin}/sse`, overrides);
      await openedAt(url);
      for (const [method, target] of [
        ['POST', '/messages/reset'],
        ['POST', '/messages/1/2'],
        ['POST', '/messages'],
        ['POST', '/admin/1'],
        ['GET', '/messages/1'],
        ['DELETE', '/messages/1'],
      ] as const) {
        expect((await ask(method, target)).status).toBe(401);
        expect(ofClient().at(-1)?.headers).not.toHaveProperty('x-api-key');
      }
    });
  });
});
