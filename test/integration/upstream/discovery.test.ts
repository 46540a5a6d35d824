/** For how long the gateway goes by what it once saw of a server. */
import { POOL_OPTIONS } from '../../fixtures/servers/pool-testbed.ts';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Discovery } from '../../../src/catalogue/discovery.ts';
import type { CallReply, EdgeRequest } from '../../../src/model/request.ts';
import { SessionPool } from '../../../src/sessions/session-pool.ts';
import { ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import { INITIALIZE_RESULT, json, ScriptedServer } from '../../fixtures/servers/scripted-server.ts';
import {
  ASKING,
  closeAfterTest,
  reply,
  upstreamOf,
} from '../../fixtures/servers/upstream-testbed.ts';

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
  caller: {
    kind: 'credentials',
    conversation: null,
    principalKey: 'ada',
    principal: 'ada',
    credentialsKey: '',
    headers: {},
  },
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
  const discovery = discoveryOf(server, clock);
  return { clock, discovery, server, stop: () => (down = true) };
}

function discoveryOf(server: ScriptedServer, clock: ManualClock): Discovery {
  const upstream = upstreamOf(
    server,
    { transport: 'streamable-http', headersTimeoutMs: TTL_MS },
    clock,
  );
  const options = { ...POOL_OPTIONS, idleTimeoutMs: TTL_MS / 2 };
  const pool = new SessionPool(upstream, options, clock);
  closeAfterTest(() => pool.close());
  return new Discovery({
    pool,
    clock,
    offersTasks: false,
    extensions: [],
    supportedVersions: () => ['2026-07-28'],
    ttlMs: TTL_MS,
    lastGreeting: () => upstream.lastGreeting(),
    ownGreeting: () => null,
    firstWaitMs: 350,
    maxCallers: 10,
  });
}

test('nothing is known before somebody asked', async () => {
  const { discovery, server } = await stage();
  expect(discovery.capabilitiesFor(REQUEST)).toBeNull();
  expect(server.received).toEqual([]);
});

// Rule discover-6.
test('what is older than its time to live is used once more, and looked at again meanwhile', async () => {
  const { clock, discovery } = await stage();
  await discovery.discover(REQUEST);
  expect(discovery.capabilitiesFor(REQUEST)).toEqual({ logging: { greetings: 1 } });
  clock.advance(TTL_MS + 1);
  const seen = () => JSON.stringify(discovery.capabilitiesFor(REQUEST));
  expect(seen()).toContain('"greetings":1');
  await turnsUntil(() => seen().includes('"greetings":2'));
});

// Rule discover-6 (caching, "Cacheable Results"): A known result is returned at once, even while the server is down.
// The client can cache it privately for 60 s.
test('the last good reply is given at once while the server is down', async () => {
  const { clock, discovery, stop } = await stage();
  const good = await discovery.discover(REQUEST);
  expect(good).toMatchObject({ kind: 'result', result: { capabilities: { logging: {} } } });
  stop();
  clock.advance(TTL_MS * 100);
  expect(await discovery.discover(REQUEST)).toEqual(good);
});

// Rule discover-7: The response comes within 500 ms. If the server does not reply in time, the caller gets its last
// public result, or `2026-07-28` and tools, with `ttlMs: 0`.
test('a caller without an earlier reply waits for 350 ms, and then gets what is certain', async () => {
  const server = await ScriptedServer.start(() => {});
  const clock = new ManualClock();
  const discovery = discoveryOf(server, clock);
  let answer: CallReply | null = null;
  const asked = discovery.discover(REQUEST).then((given) => {
    answer = given;
  });
  await server.saw(({ body }) => body?.method === 'initialize');
  clock.advance(349);
  await nextTurn();
  expect(answer).toBeNull();
  clock.advance(1);
  await asked;
  expect(answer).toEqual({
    kind: 'result',
    result: {
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {} },
      ttlMs: 0,
      cacheScope: 'private',
    },
  });
  expect(discovery.capabilitiesFor(REQUEST)).toBeNull();
  // The session that is being opened ends with the test.
  clock.advance(TTL_MS);
});

// Rule discover-8.
test('what one caller was shown is not shown to another, nor under other credentials', async () => {
  const { discovery } = await stage();
  const { caller } = REQUEST;
  const callers = [
    caller,
    { ...caller, principalKey: 'eve', principal: 'eve' },
    { ...caller, credentialsKey: 'other' },
  ];
  for (const [index, one] of callers.entries()) {
    const request = { ...REQUEST, caller: one };
    expect(discovery.capabilitiesFor(request)).toBeNull();
    await discovery.discover(request);
    expect(discovery.capabilitiesFor(request)).toEqual({ logging: { greetings: index + 1 } });
  }
});

// Rule discover-6.
test('what is far too old counts as unknown', async () => {
  const { clock, discovery, stop } = await stage();
  await discovery.discover(REQUEST);
  stop();
  clock.advance(TTL_MS * 10);
  expect(discovery.capabilitiesFor(REQUEST)).toEqual({ logging: { greetings: 1 } });
  clock.advance(1);
  expect(discovery.capabilitiesFor(REQUEST)).toBeNull();
});
