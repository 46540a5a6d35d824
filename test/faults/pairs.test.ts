/**
 * What can shape or strike a call, in twos. Each of these works alone, and has tests of its own. Faults of a gateway are
 * products of two: so one story, that of two calls of a caller which are parked side by side, is told under each pair.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import {
  callTool,
  accept,
  type Exchanged,
  type SendOptions,
} from '../fixtures/clients/modern-client.ts';
import { aboutTask, TASK_CLIENT } from '../fixtures/clients/task-client.ts';
import type { GatewayProcess } from '../fixtures/gateways/gateway-process.ts';
import { legacyServer, redisServer, replica, text } from '../fixtures/gateways/replica-testbed.ts';
import { UnreliableWay } from '../fixtures/network/unreliable-way.ts';
import { startSupergateway } from '../fixtures/real-servers/supergateway.ts';
import { MIB, openCall } from '../fixtures/servers/flood.ts';
import { askName } from '../fixtures/servers/legacy-server.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

// The wire is not typed; a test reads whatever came.
/* eslint-disable @typescript-eslint/no-explicit-any */

const KEEPER = fileURLToPath(new URL('../fixtures/real-servers/stdio-keeper.js', import.meta.url));
/** How long the way to the server leads nowhere, in ms. */
const BLACK_HOLE_MS = 2_000;
/** More than a connection holds whose client reads nothing. */
const LONG_MESSAGE = 'x'.repeat(12 * MIB);

/** Two gateways, and the way to their server. */
interface Stage {
  readonly one: GatewayProcess;
  /** Shares a store with the first one. In front of a server that serves one gateway only, it takes the place of the first. */
  readonly other: () => Promise<GatewayProcess>;
  readonly way: UnreliableWay | null;
  /** What each tool acted with, in the order of the acts; `null` if the server does not say. */
  readonly acts: string[] | null;
}

interface Feature {
  readonly name: string;
  /** What the server is; one of the SDK over Streamable HTTP that keeps its events, without this. */
  readonly server?: 'broadcast' | 'stdio';
  readonly route?: object;
  /** How the client calls. */
  readonly client?: 'slow' | 'task';
  /** What happens while the calls wait for their client or, if that is slow, for it to read their results. */
  readonly strike?: (stage: Stage) => Promise<unknown>;
  /** Whether the process that has the calls ends. */
  readonly ends?: boolean;
}

const FEATURES: readonly Feature[] = [
  { name: 'a slow reader', client: 'slow' },
  { name: 'a drain', ends: true, strike: ({ one }) => one.drain() },
  { name: 'a release', route: { parking: { release: 'when-resumable' } } },
  { name: 'a stream that is resumed', strike: async ({ way }) => way?.cut() },
  { name: 'a takeover', ends: true, strike: ({ one }) => one.kill() },
  { name: 'a 401', strike: async ({ way }) => way?.refuseCredentialsOnce() },
  {
    name: 'a black hole',
    strike: async ({ way }) => {
      way?.swallow();
      await pause(BLACK_HOLE_MS);
      way?.mend();
    },
  },
  { name: 'a lost standalone stream', strike: async ({ way }) => way?.loseStandaloneStreams() },
  { name: 'a broadcast', server: 'broadcast' },
  { name: 'a task', client: 'task', route: { tasks: { promote: 'always' } } },
  { name: 'stdio', server: 'stdio' },
];

/** Why a pair is none. */
function senseless(one: Feature, other: Feature): string | null {
  const names = [one.name, other.name];
  if (one.server !== undefined && other.server !== undefined) return 'a server is one of them';
  if (one.client !== undefined && other.client !== undefined) return 'who polls reads little';
  const hasNoWay = [one, other].some(({ server }) => server === 'stdio');
  const isOnTheWay = /401|black hole|standalone|resumed/;
  if (hasNoWay && names.some((name) => isOnTheWay.test(name))) return 'a pipe does not break so';
  if (one.client === 'slow' && other.server !== undefined) return 'its results are short';
  const isEventStream = [one, other].some(({ server }) => server === 'broadcast');
  if (isEventStream && names.some((name) => name.includes('standalone')))
    return 'it has no other stream';
  return null;
}

const PAIRS = FEATURES.flatMap((one, at) =>
  FEATURES.slice(at + 1).map((other) => [one, other] as const),
)
  .filter(([one, other]) => senseless(one, other) === null)
  .map((pair) => [pair.map(({ name }) => name).join(' and '), pair] as const);

/** Whether both calls must end with their results, whatever else happens. */
function survives(pair: readonly Feature[]): boolean {
  // What is over a pipe or an event stream without ids ends with the process, or the connection, that has it.
  const cannotMove = pair.some(({ server }) => server !== undefined);
  return !cannotMove || pair.every(({ strike }) => strike === undefined);
}

async function stage(pair: readonly Feature[]): Promise<Stage> {
  const kind = pair.find(({ server }) => server !== undefined)?.server;
  const acts: string[] = [];
  let way: UnreliableWay | null = null;
  let upstream: object;
  if (kind === 'stdio') upstream = { command: process.execPath, args: [KEEPER] };
  else {
    const target = kind === 'broadcast' ? await broadcasting() : (await keeper(acts)).url;
    way = await UnreliableWay.to(target);
    upstream = { url: way.url, maxEvent: '32MiB' };
  }
  const route = Object.assign({ upstream }, ...pair.map((feature) => feature.route ?? {}));
  if (kind === 'broadcast') {
    const start = () => replica({ url: '' }, { relay: false, route });
    return { one: await start(), other: start, way, acts: null };
  }
  const redis = await redisServer();
  const start = () => replica({ url: '' }, { redis: redis.url, route });
  const [one, other] = await Promise.all([start(), start()]);
  return { one, other: async () => other, way, acts: kind === undefined ? acts : null };
}

async function broadcasting(): Promise<string> {
  const server = await startSupergateway('keeper');
  stopAfterTest(() => server.stop());
  return `${server.origin}/sse`;
}

/** A server whose tool asks for a secret, acts with it, and has much to say if it is asked for that. */
function keeper(acts: string[]) {
  return legacyServer({
    keepsEvents: true,
    tools: {
      keep: async (call) => {
        const { who, long } = call.args;
        const secret = await askName(call, `The secret of ${String(who)}?`, 'secret');
        acts.push(String(who));
        const progressToken = call.extra._meta?.progressToken;
        if (long === true && progressToken !== undefined) {
          const params = { progressToken, progress: 1, message: LONG_MESSAGE };
          await call.extra.sendNotification({ method: 'notifications/progress', params });
        }
        return `${String(who)}: ${secret}`;
      },
    },
  });
}

interface Outcome {
  readonly asked: readonly string[];
  readonly text: unknown;
  /** `data.mayHaveActed` of the error with which the call ended, if it did. */
  readonly mayHaveActed: unknown;
}

const CALLER: SendOptions = { headers: { authorization: 'Bearer caller' } };

/** One call of the tool, from its first request to its end. */
class Story {
  readonly #who: string;
  readonly #client: Feature['client'];
  readonly #asked: string[] = [];
  #last: any;

  constructor(who: string, client: Feature['client']) {
    this.#who = who;
    this.#client = client;
  }

  /** Calls, and resolves when the client has the question. */
  async begin({ url }: GatewayProcess): Promise<void> {
    do this.#last = await this.#request(url, {});
    while (mayBeRepeated(this.#last));
    if (this.#client !== 'task') return;
    const { taskId } = this.#last.response.result;
    while ((await this.#task(url, 'get', taskId)).status === 'working');
  }

  /**
   * Answers the question.
   * @param at resolves to where the client sends its next request
   * @param read resolves when a client that is slow begins to read
   */
  async end(at: () => Promise<GatewayProcess>, read: Promise<unknown>): Promise<Outcome> {
    if (this.#client === 'task') return this.#endTask((await at()).url);
    let more = this.#answers();
    let isFirst = true;
    for (;;) {
      const answer =
        this.#client === 'slow' && isFirst
          ? await this.#slowly((await at()).url, more, read)
          : await this.#request((await at()).url, more);
      isFirst = false;
      if (answer === null || mayBeRepeated(answer)) continue;
      this.#last = answer;
      if (answer.response.result?.requestState === undefined) return this.#outcome(answer);
      more = this.#answers();
    }
  }

  async #request(url: string, more: object): Promise<Exchanged> {
    const args = { arguments: { who: this.#who, long: this.#client === 'slow' } };
    const capabilities = this.#client === 'task' ? TASK_CLIENT : undefined;
    return callTool(
      url,
      'keep',
      { ...args, ...more },
      { ...CALLER, ...(capabilities !== undefined && { capabilities }) },
    );
  }

  /** @returns `null` if the connection broke before the response */
  async #slowly(url: string, more: object, read: Promise<unknown>) {
    const args = { arguments: { who: this.#who, long: true } };
    const opened = await openCall(url, 'keep', { ...args, ...more }, CALLER).catch(() => null);
    if (opened === null) return null;
    const { answer, take } = opened;
    await read;
    const { response } = await take();
    return response === undefined ? null : { status: answer.statusCode ?? 0, response };
  }

  #answers(): object {
    const { requestState, inputRequests = {} } = this.#last.response.result;
    return { requestState, inputResponses: this.#responses(inputRequests) };
  }

  #responses(questions: Record<string, any>): object {
    this.#asked.push(...Object.values(questions).map(({ params }) => params.message));
    const secret = accept({ secret: `secret of ${this.#who}` });
    return Object.fromEntries(Object.keys(questions).map((key) => [key, secret]));
  }

  async #endTask(url: string): Promise<Outcome> {
    const { taskId } = this.#last.response.result;
    for (;;) {
      const task = await this.#task(url, 'get', taskId);
      if (task.status === 'input_required') {
        const inputResponses = this.#responses(task.inputRequests);
        await this.#task(url, 'update', taskId, { inputResponses });
      } else if (task.status !== 'working') {
        const { result, error } = task;
        return this.#outcome({ response: { result, error } });
      }
    }
  }

  /** Asks of the task until there is an answer that is no request to ask again. */
  async #task(url: string, method: 'get' | 'update', taskId: string, more = {}): Promise<any> {
    for (;;) {
      const answer = await aboutTask(url, method, taskId, more, CALLER);
      if (mayBeRepeated(answer)) continue;
      if (answer.response.error === undefined) return answer.response.result;
      return { status: 'failed', error: answer.response.error };
    }
  }

  #outcome({ response }: Pick<Exchanged, 'response'>): Outcome {
    const data = response.error?.data;
    const meta = response.result?._meta;
    const mayHaveActed = data?.mayHaveActed ?? meta?.['mrtr-gateway/mayHaveActed'];
    const isResult = response.result?.isError !== true && response.error === undefined;
    return {
      asked: this.#asked,
      text: isResult ? text({ response } as Exchanged) : null,
      mayHaveActed: isResult ? null : (mayHaveActed ?? 'not said'),
    };
  }
}

function mayBeRepeated({ status, response }: Pick<Exchanged, 'status' | 'response'>): boolean {
  const data = response?.error?.data;
  // Refused credentials are in the error if the response has begun.
  return status === 401 || data?.reason === 'unauthorized' || data?.retryable === true;
}

async function told(pair: readonly Feature[]) {
  const setting = await stage(pair);
  const { one, other, acts } = setting;
  const client = pair.find((feature) => feature.client !== undefined)?.client;
  const isBroadcast = pair.some(({ server }) => server === 'broadcast');
  // Who serves everybody's messages to everybody has one call at a time.
  const callers = isBroadcast ? ['ada'] : ['ada', 'bob'];
  const stories = callers.map((who) => new Story(who, client));
  for (const story of stories) await story.begin(one);
  let at = Promise.resolve(one);
  const strike = async () => {
    const struck = Promise.all(pair.map(async (feature) => feature.strike?.(setting)));
    if (pair.some(({ ends }) => ends)) at = isBroadcast ? struck.then(other) : other();
    await struck;
  };
  const reading = Promise.withResolvers<void>();
  const struck = client === 'slow' ? actedAll(acts, callers.length).then(strike) : strike();
  const ends = stories.map((story) => story.end(() => at, reading.promise));
  await struck;
  reading.resolve();
  const outcomes = await Promise.all(ends);
  return { callers, outcomes, acts, at: await at, client };
}

/** Resolves when each of so many calls has acted. */
async function actedAll(acts: readonly string[] | null, count: number): Promise<void> {
  while ((acts?.length ?? 0) < count) await pause(10);
}

// Rule laws-3: If two faults meet, each call keeps its own questions, acts at most once, and gets its result or an
// error that says whether it acted.
test.each(PAIRS)(
  '%s: each of two calls has its own questions, one act, and one true outcome',
  { tags: ['redis', 'long'] },
  async (_names, pair) => {
    const { callers, outcomes, acts, at, client } = await told(pair);
    for (const [index, { asked, text: said, mayHaveActed }] of outcomes.entries()) {
      const who = callers[index] ?? '';
      expect(new Set(asked)).toEqual(new Set([`The secret of ${who}?`]));
      const own = `${who}: secret of ${who}`;
      if (survives(pair)) expect({ said, mayHaveActed }).toEqual({ said: own, mayHaveActed: null });
      else expect([own, null]).toContain(said);
      if (acts === null) continue;
      const acted = acts.filter((one) => one === who).length;
      if (said !== null) expect(acted).toBe(1);
      else if (mayHaveActed === 'no') expect(acted).toBe(0);
      else expect(acted).toBeLessThanOrEqual(1);
    }
    const later = new Story('carol', client === 'task' ? 'task' : undefined);
    await later.begin(at);
    const never = new Promise<void>(() => {});
    expect(await later.end(async () => at, never)).toMatchObject({
      text: 'carol: secret of carol',
    });
    expect(await at.metric('mrtr_gateway_parked_calls{route="mcp"}')).toBe(0);
  },
);
