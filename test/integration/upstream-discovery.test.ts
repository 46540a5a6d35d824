/** For how long the gateway goes by what it once saw of a server. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Discovery } from '../../src/bridge/discovery.ts';
import type { EdgeRequest } from '../../src/bridge/leg.ts';
import { SessionPool } from '../../src/upstream/session-pool.ts';
import { ManualClock } from '../fixtures/manual-clock.ts';
import { INITIALIZE_RESULT, json, ScriptedServer } from '../fixtures/scripted-server.ts';
import { ASKING, closeAfterTest, reply, upstreamOf } from '../fixtures/upstream-ground.ts';

const TTL_MS = 60_000;
const REQUEST: EdgeRequest = {
  method: 'tools/list',
  params: {},
  forwardedMeta: {},
  profile: ASKING,
  clientInfo: null,
  logLevel: null,
  progressToken: null,
  inputResponses: null,
  requestState: null,
  caller: { principalKey: 'ada', principal: 'ada', credentialsKey: '', headers: {} },
};

/** A discovery in front of a server that has other capabilities in each session, or is down. */
async function stage() {
  let greetings = 0;
  let down = false;
  const server = await ScriptedServer.start(({ method, body }, response) => {
    if (down) return json(response, 500, {});
    if (method !== 'POST') return void response.writeHead(405).end();
    if (body.method !== 'initialize') return void response.writeHead(202).end();
    greetings += 1;
    const result = { ...INITIALIZE_RESULT, capabilities: { logging: { greetings } } };
    json(response, 200, reply(body.id, result), { 'mcp-session-id': `session-${greetings}` });
  });
  const clock = new ManualClock();
  const upstream = upstreamOf(server, { transport: 'streamable-http' }, clock);
  const options = { scope: null, idleTimeoutMs: TTL_MS / 2, maxIdle: 8 };
  const pool = new SessionPool(upstream, options, clock);
  closeAfterTest(() => pool.close());
  const discovery = new Discovery({
    pool,
    clock,
    supportedVersions: () => ['2026-07-28'],
    ttlMs: TTL_MS,
    firstWaitMs: 3_000,
    maxCallers: 10,
  });
  return { clock, discovery, server, stop: () => (down = true) };
}

test('nothing is known before somebody asked', async () => {
  const { discovery, server } = await stage();
  expect(discovery.capabilitiesFor(REQUEST)).toBeNull();
  expect(server.received).toEqual([]);
});

test('what is older than its time to live is used once more, and looked at again meanwhile', async () => {
  const { clock, discovery } = await stage();
  await discovery.discover(REQUEST);
  expect(discovery.capabilitiesFor(REQUEST)).toEqual({ logging: { greetings: 1 } });
  clock.advance(TTL_MS + 1);
  const seen = () => JSON.stringify(discovery.capabilitiesFor(REQUEST));
  expect(seen()).toContain('"greetings":1');
  while (!seen().includes('"greetings":2')) await nextTurn();
});

test('what is far too old counts as unknown', async () => {
  const { clock, discovery, stop } = await stage();
  await discovery.discover(REQUEST);
  stop();
  clock.advance(TTL_MS * 10);
  expect(discovery.capabilitiesFor(REQUEST)).toEqual({ logging: { greetings: 1 } });
  clock.advance(1);
  expect(discovery.capabilitiesFor(REQUEST)).toBeNull();
});
