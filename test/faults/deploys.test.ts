/** A deploy: three replicas are replaced one after the other. What is kept, and what is lost, as docs/operate/deploys.md says. */
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { ListeningClient } from '../fixtures/clients/listening-client.ts';
import { accept, callTool, type SendOptions } from '../fixtures/clients/modern-client.ts';
import { aboutTask, callForTask, untilTask } from '../fixtures/clients/task-client.ts';
import type {
  GatewayProcess,
  GatewayProcessOptions,
} from '../fixtures/gateways/gateway-process.ts';
import {
  answersOf,
  legacyServer,
  reasonOf,
  redisServer,
  replica,
  stateOf,
  text,
  whileRetryable,
} from '../fixtures/gateways/replica-testbed.ts';
import { askName, type LegacyServerOptions } from '../fixtures/servers/legacy-server.ts';
import { SubscribingServer } from '../fixtures/servers/subscribing-server.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';
import { tableWith, textOf } from '../unit/docs/markdown-tables.ts';

const STDIO_SERVER = fileURLToPath(new URL('../fixtures/servers/stdio-server.js', import.meta.url));
/** Less than `drain.timeout`. */
const SHORT_MS = 800;
const CONFIG = { drain: { delay: '0s', timeout: '2s' } };

/** A caller with a home of its own, so that no call waits for another one. */
const as = (name: string): SendOptions => ({ headers: { authorization: `Bearer ${name}` } });

/** The same tools as those of the server over stdio. */
function toolsOfServer(): {
  readonly tools: NonNullable<LegacyServerOptions['tools']>;
  readonly finish: () => void;
} {
  const sessions = new WeakMap<object, string>();
  let count = 0;
  const finishing = Promise.withResolvers<void>();
  return {
    finish: finishing.resolve,
    tools: {
      ask: askName,
      pid: async ({ server }) => {
        const known = sessions.get(server) ?? String((count += 1));
        sessions.set(server, known);
        return known;
      },
      block: async () => {
        await sleep(SHORT_MS);
        return 'done';
      },
      hang: async () => {
        await finishing.promise;
        return 'done';
      },
    },
  };
}

/** What clients have of one replica before it is replaced. */
async function begin({ url }: GatewayProcess) {
  const short = callTool(url, 'block', { arguments: { ms: SHORT_MS } }, as('short'));
  const long = callTool(url, 'hang', {}, as('long'));
  const [parked, task, session] = await Promise.all([
    callTool(url, 'ask', {}, as('parked')),
    callForTask(url, 'ask', {}, as('task')),
    callTool(url, 'pid', {}, as('session')),
  ]);
  return { short, long, parked, task, session };
}

/** Replaces all replicas, one after the other. @returns the last new one, which clients reach afterwards */
async function deploy(start: () => Promise<GatewayProcess>, fleet: readonly GatewayProcess[]) {
  const [first] = fleet;
  let latest = first!;
  for (const old of fleet) {
    latest = await start();
    expect(await old.drain()).toBe(0);
  }
  return latest;
}

type Begun = Awaited<ReturnType<typeof begin>>;

async function taskAfter({ task }: Begun, { url }: GatewayProcess): Promise<string> {
  const { taskId } = task.response.result;
  if (taskId === undefined) return 'no task';
  const { response } = await aboutTask(url, 'get', taskId, {}, as('task'));
  if (response.error !== undefined) return response.error.data.reason;
  const { inputRequests, status, result } = response.result;
  if (status !== 'input_required') return result._meta['mrtr-gateway/reason'];
  const keys = Object.keys(inputRequests);
  const inputResponses = Object.fromEntries(keys.map((key) => [key, accept({ name: 'Ada' })]));
  await aboutTask(url, 'update', taskId, { inputResponses }, as('task'));
  const done = await untilTask(url, taskId, ['completed', 'failed'], as('task'));
  return done.result?.content[0].text === 'Ada' ? 'kept' : done.status;
}

/** What became of each, in the words of the page. */
async function outcomes(begun: Begun, latest: GatewayProcess, finish: () => void) {
  const { url } = latest;
  const { short, long, parked, session } = begun;
  const told = await long;
  const isHandedOver = told.response.result?.resultType === 'input_required';
  const again = isHandedOver
    ? callTool(url, 'hang', { requestState: stateOf(told) }, as('long'))
    : Promise.resolve(told);
  finish();
  const answered = await whileRetryable(() =>
    callTool(url, 'ask', answersOf(parked, 'Ada'), as('parked')),
  );
  const now = text(await callTool(url, 'pid', {}, as('session')));
  return {
    'A call that ends within drain.timeout': text(await short) === 'done' ? 'kept' : 'lost',
    'A call that works on': text(await again) === 'done' ? 'kept' : reasonOf(await again),
    'A parked call': text(answered) === 'Ada' ? 'kept' : reasonOf(answered),
    'A task that asks': await taskAfter(begun, latest),
    'What the session holds': now === text(session) ? 'kept' : 'lost',
  };
}

const LISTENER = 'A listener';
const table = tableWith(textOf('docs/operate/deploys.md'), 'What clients have at the replica');

/** What the page says of one kind of server and replicas. */
function documented(column: string): Record<string, string> {
  const at = table.head.indexOf(column);
  return Object.fromEntries(
    table.rows.map((row) => [row[0]!.replaceAll('`', ''), row[at]!.replaceAll('`', '')]),
  );
}

describe.each([
  ['with Redis', true],
  ['without Redis', false],
])('a deploy of three replicas %s', { tags: ['long'], timeout: 60_000 }, (_store, hasStore) => {
  const redis = hasStore ? ['redis'] : [];
  const column = (kind: string) => (hasStore ? `${kind}, Redis` : kind);

  /** Three replicas, and what starts one more. */
  async function fleetBefore(legacy: { readonly url: string } | null) {
    const upstream = { command: process.execPath, args: [STDIO_SERVER] };
    const route = { tasks: { promote: 'interactive' }, ...(legacy === null ? { upstream } : {}) };
    const store = hasStore ? { redis: (await redisServer()).url } : {};
    const options: Partial<GatewayProcessOptions> = { ...store, route, config: CONFIG };
    const start = () => replica(legacy ?? { url: '' }, options);
    return { start, fleet: await Promise.all([start(), start(), start()]) };
  }

  test.each([
    ['event ids', { keepsEvents: true }],
    ['no event ids', { keepsEvents: false }],
    ['stdio', null],
  ])('before a server with %s', { tags: redis }, async (kind, server) => {
    const { finish, tools } = toolsOfServer();
    stopAfterTest(async () => finish());
    const { start, fleet } = await fleetBefore(
      server && (await legacyServer({ tools, ...server })),
    );
    const begun = await begin(fleet[0]!);
    const latest = await deploy(start, fleet);
    const { [LISTENER]: _listener, ...kept } = documented(column(kind));
    expect(await outcomes(begun, latest, finish)).toEqual(kept);
  });

  test.each([
    ['event ids', { keepsEvents: true }],
    ['no event ids', { keepsEvents: false }],
    ['stdio', null],
  ])(
    'ends listeners, which hear on at the next one: a server with %s',
    { tags: redis },
    async (kind, server) => {
      const legacy = server && (await SubscribingServer.start(server));
      stopAfterTest(async () => legacy?.stop());
      const { start, fleet } = await fleetBefore(legacy);
      const listen = ({ url }: GatewayProcess) =>
        ListeningClient.open(url, { toolsListChanged: true }, as('listener'));
      const listener = await listen(fleet[0]!);
      const latest = await deploy(start, fleet);
      const hasEnded = (await listener.answered) !== null;
      const again = await listen(latest);
      stopAfterTest(() => again.leave());
      if (legacy === null) await callTool(latest.url, 'announce', {}, as('listener'));
      else await legacy.changed('tools');
      await again.until(2);
      expect(again.heard).toEqual(['tools/list_changed']);
      expect(hasEnded ? 'ended, to listen again' : 'cut').toBe(documented(column(kind))[LISTENER]);
    },
  );
});
