/** A replica ends with calls of one caller that were asked. Two others go on with them: each question is shown in its own call. */
import { describe, expect, test } from 'vitest';
import { accept, callTool, type Exchanged } from '../../fixtures/clients/modern-client.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import {
  legacyServer,
  redisServer,
  replicas,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { startPythonStoreServer } from '../../fixtures/real-servers/python/python-server.ts';
import type { ToolCall } from '../../fixtures/servers/legacy/tools.ts';
import { askName, type LegacyServerOptions } from '../../fixtures/servers/legacy-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

/** Each request has its outcome within this time. */
const OUTCOME_WITHIN_MS = 20_000;
const WORK_MS = 2_000;
/** How often three replicas ask for the stream of one session that do not take it from each other. */
const MOST_STREAMS = 4;

/** `twice` asks on the stream of its call, works, and asks again; `beside` asks on the stream of the session. */
const tools = {
  twice: async (asking: ToolCall) => {
    const call = String(asking.args['call']);
    const first = await askName(asking, `call=${call};`);
    await new Promise((resolve) => setTimeout(resolve, WORK_MS));
    return `${call} ${first} ${await askName(asking, `call=${call};`)}`;
  },
  beside: async ({ args, server }: ToolCall) => {
    const call = String(args['call']);
    const { action, content } = await server.elicitInput({
      message: `call=${call};`,
      requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
    });
    return `${call} ${content?.['name'] ?? action}`;
  },
};

/** A call of Ada, over all its rounds. */
class Call {
  readonly #tool: string;
  readonly #call: string;
  #answers: object = {};

  constructor(tool: string, call: string) {
    this.#tool = tool;
    this.#call = call;
  }

  /** Sends one request of the call. @returns what came of it */
  async send(to: GatewayProcess): Promise<Exchanged> {
    const params = { arguments: { call: this.#call }, ...this.#answers };
    const exchanged = await callTool(to.url, this.#tool, params, {
      headers: { authorization: 'Bearer ada' },
      signal: AbortSignal.timeout(OUTCOME_WITHIN_MS),
    });
    const { inputRequests, requestState } = exchanged.response.result ?? {};
    if (inputRequests === undefined) return exchanged;
    const asking = [...JSON.stringify(inputRequests).matchAll(/call=(\w+);/g)];
    expect(asking.map(([, call]) => call)).toEqual([this.#call]);
    const inputResponses = Object.fromEntries(
      Object.keys(inputRequests).map((key) => [key, accept({ name: 'Ada' })]),
    );
    this.#answers = { requestState, inputResponses };
    return exchanged;
  }

  /** Sends the next requests to these replicas in turns, until the call is over. @returns its result */
  async finish(...at: readonly GatewayProcess[]): Promise<unknown> {
    for (let turn = 0; ; turn += 1) {
      const { response } = await this.send(at[turn % at.length]!);
      if (response.error !== undefined) expect(response.error.data.retryable).toBe(true);
      else if (response.result.inputRequests === undefined) return text({ response } as Exchanged);
    }
  }
}

async function typescript(options: Omit<LegacyServerOptions, 'tools'> = {}) {
  const server = await legacyServer({ tools, keepsEvents: true, ...options });
  return { url: server.url, streams: () => mostOfOne(server.standaloneStreams) };
}

/** How often the text is there that is there most often. */
function mostOfOne(texts: readonly string[]): number {
  return Math.max(...texts.map((text) => texts.filter((other) => other === text).length));
}

async function fastMcp() {
  const server = await startPythonStoreServer('event-store');
  stopAfterTest(() => server.stop());
  // It refuses a second stream.
  return { url: `${server.origin}/mcp`, streams: () => 0 };
}

const VARIANTS = [
  {
    title: 'drained, and its call goes on first',
    first: 'retry',
    end: 'drain',
    server: typescript,
  },
  { title: 'drained, and a new call is first', first: 'new', end: 'drain', server: typescript },
  { title: 'killed, and its call goes on first', first: 'retry', end: 'kill', server: typescript },
  {
    title: 'frozen, and awake again once its call has gone on',
    first: 'retry',
    end: 'freeze',
    server: typescript,
  },
  { title: 'killed, and a new call is first', first: 'new', end: 'kill', server: typescript },
  {
    title: 'killed before a server for which the newest stream counts',
    first: 'retry',
    end: 'kill',
    server: () => typescript({ newestStreamCounts: true }),
  },
  {
    title: 'killed before a server written with FastMCP',
    first: 'retry',
    end: 'kill',
    server: fastMcp,
    tags: ['python'],
  },
] as const;

for (const { title, first, end, server: start, ...more } of VARIANTS) {
  const tags = [
    'redis',
    ...('tags' in more ? more.tags : []),
    ...(end === 'drain' ? [] : ['long']),
  ];
  describe(`a replica that is ${title}`, { tags }, () => {
    // Rule questions-10.
    test('leaves its calls to others, which ask each call its own questions', async () => {
      const redis = await redisServer();
      const server = await start();
      const [a, b, c] = await replicas(server, 3, { redis: redis.url });
      const resumed = new Call('twice', 'resumed');
      const parked = new Call('beside', 'parked');
      for (const call of [resumed, parked]) await call.send(a);
      await a[end]();
      const going: Promise<unknown>[] = [];
      if (first === 'retry') {
        going.push(resumed.finish(b, c));
        // A replica that lost sight of Redis for a moment cannot say who is dead, and has the client retry at the other one.
        await Promise.race([b, c].map((each) => each.saw('call.resumed')));
        if (end === 'freeze') a.thaw();
      } else {
        expect(await new Call('beside', 'first').finish(c, b)).toBe('first Ada');
        going.push(resumed.finish(b, c));
      }
      going.push(
        new Call('beside', 'new').finish(c, b),
        new Call('beside', 'another').finish(b, c),
      );
      going.push(parked.finish(c, b));
      const outcomes = await Promise.all(going);
      expect(outcomes).toEqual(['resumed Ada Ada', 'new Ada', 'another Ada', 'parked Ada']);
      expect(server.streams()).toBeLessThanOrEqual(MOST_STREAMS);
    });
  });
}
