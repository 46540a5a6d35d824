/**
 * `upstream.roots: caller` over several processes: the question can be answered at any of them.
 * @module-tag redis
 */
import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { RootsListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { expect, test } from 'vitest';
import {
  callTool,
  type Exchanged,
  type SendOptions,
} from '../../fixtures/clients/modern-client.ts';
import type {
  GatewayProcess,
  GatewayProcessOptions,
} from '../../fixtures/gateways/gateway-process.ts';
import {
  legacyServer,
  redisServer,
  replicas,
  stateOf,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';

const ADA: SendOptions = { headers: { authorization: 'Bearer ada' } };

/** Two replicas before a server that tells with which roots it was told last, and how many calls its session had before. */
async function stage(options: Partial<GatewayProcessOptions> = {}) {
  const known = new WeakMap<Server, { roots: string[]; calls: number }>();
  const legacy = await legacyServer({
    prepare: (server) => {
      const of = { roots: [] as string[], calls: 0 };
      known.set(server, of);
      server.setNotificationHandler(RootsListChangedNotificationSchema, async () => {
        of.roots = (await server.listRoots()).roots.map(({ uri }) => uri);
      });
    },
    tools: {
      folders: async ({ server }) => {
        const of = known.get(server);
        if (of === undefined) throw new Error('an unknown session');
        return `${of.roots.join()} ${of.calls++}`;
      },
    },
  });
  const route = { upstream: { url: legacy.url, roots: 'caller' } };
  const [one, other] = await replicas(legacy, 2, { ...options, route });
  const calls = () => legacy.received.filter(({ method }) => method === 'tools/call').length;
  return { one, other, calls };
}

const call = ({ url }: GatewayProcess, more: object = {}) => callTool(url, 'folders', more, ADA);
const answering = (asked: Exchanged, uri: string) => ({
  requestState: stateOf(asked),
  inputResponses: { 'roots-1': { roots: [{ uri }] } },
});

// Rule roots-7.
test('a replica that is not the owner passes the answer to it', async () => {
  const { one, other, calls } = await stage();
  const asked = await call(one);
  expect(text(await call(other, answering(asked, 'file:///ada')))).toBe('file:///ada 0');
  expect(calls()).toBe(1);
});

// Rule roots-7.
test('when the owner is gone, another replica makes the call, with the roots, once', async () => {
  const { one, other, calls } = await stage();
  const asked = await call(one);
  await one.kill();
  const answer = answering(asked, 'file:///ada');
  expect(text(await call(other, answer))).toBe('file:///ada 0');
  expect(text(await call(other, answer))).toBe('file:///ada 0');
  expect(text(await call(other))).toBe('file:///ada 1');
  expect(calls()).toBe(2);
});

// Rule roots-7.
test('when it stops, the client can answer elsewhere as well', async () => {
  const { one, other, calls } = await stage();
  const asked = await call(one);
  await one.drain();
  expect(text(await call(other, answering(asked, 'file:///ada')))).toBe('file:///ada 0');
  expect(calls()).toBe(1);
});

// Rule roots-8: A replica that takes a session over asks once more.
test('a replica that takes the session over asks once more', async () => {
  const redis = await redisServer();
  const { one, other } = await stage({ redis: redis.url });
  expect(text(await call(one, answering(await call(one), 'file:///ada')))).toBe('file:///ada 0');
  expect(text(await call(other))).toBe('file:///ada 1');
  await one.drain();
  const asked = await call(other);
  expect(text(await call(other, answering(asked, 'file:///eve')))).toBe('file:///eve 2');
});

// Rule roots-7.
test('with Redis a call that waits for roots is made where the home of its caller is by then', async () => {
  const redis = await redisServer();
  const { one, other, calls } = await stage({ redis: redis.url });
  const asked = await call(one);
  await one.kill();
  expect(text(await call(other, answering(asked, 'file:///ada')))).toBe('file:///ada 0');
  expect(calls()).toBe(1);
});
