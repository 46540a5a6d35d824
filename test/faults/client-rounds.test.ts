/**
 * How many rounds the clients of official SDKs get in one call, with questions and without, in every way in which a call can take long
 * or ask often, and how the call ends for them.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { resultFromTaskOutcome, withTasks } from '@modelcontextprotocol/ext-tasks/client';
import { describe, expect, test } from 'vitest';
import { answering, portTo } from '../fixtures/clients/ext-tasks-client.ts';
import type {
  GatewayProcess,
  GatewayProcessOptions,
} from '../fixtures/gateways/gateway-process.ts';
import { legacyServer, replicas, roundRobin } from '../fixtures/gateways/replica-testbed.ts';
import { MODERN_CLIENTS } from '../fixtures/real-servers/clients/modern.ts';
import { askName, type LegacyServer } from '../fixtures/servers/legacy-server.ts';
import type { Tool, ToolCall } from '../fixtures/servers/legacy/tools.ts';

interface Stage {
  readonly legacy: LegacyServer;
  readonly gateways: readonly [GatewayProcess, GatewayProcess, GatewayProcess];
  /** Sends what comes from the client to this gateway from now on; at first all goes to the first one. */
  readonly use: (gateway: GatewayProcess) => void;
  /** Resolves when the tool is told to end. */
  readonly finished: Promise<void>;
  readonly finish: () => void;
}

interface Row {
  /** Completes "a tool that ...". */
  readonly that: string;
  readonly tool: (call: ToolCall, stage: Stage) => ReturnType<Tool>;
  /** How often the client calls it; once by default. */
  readonly calls?: number;
  readonly keepsEvents?: boolean;
  readonly options?: Partial<GatewayProcessOptions>;
  /** What becomes of the gateways while the client waits. */
  readonly meanwhile?: (stage: Stage) => Promise<void>;
  readonly stateOnly: number;
  readonly questions: number;
  /** What the client gets, or how the call ends. */
  readonly ends: string | RegExp | ((client: string) => RegExp);
}

const works =
  (ms: number): Row['tool'] =>
  async () => {
    await sleep(ms);
    return 'done';
  };
const untilTold: Row['tool'] = async (_call, { finished }) => {
  await finished;
  return 'done';
};
const draining = (timeout: string) => ({ config: { drain: { delay: '0s', timeout } } });
const HELD = { route: { calls: { maxHold: '2s' } } };

/** Stops one replica, while another one is there that gets what is left. */
async function handOver({ use }: Stage, old: GatewayProcess, next: GatewayProcess) {
  use(next);
  expect(await old.drain()).toBe(0);
  await next.saw('call.resumed');
}

const ROWS: readonly Row[] = [
  {
    that: 'takes longer than a response stays JSON, with the defaults',
    tool: works(6_000),
    stateOnly: 0,
    questions: 0,
    ends: 'done',
  },
  {
    that: 'ends within drain.timeout at a replica that stops',
    tool: untilTold,
    keepsEvents: true,
    options: draining('30s'),
    meanwhile: async ({ gateways: [one, two], use, finish }) => {
      // The client of the Python SDK lists the tools when it has the result.
      use(two);
      const gone = one.drain();
      await one.saw('gateway.draining');
      finish();
      expect(await gone).toBe(0);
    },
    stateOnly: 0,
    questions: 0,
    ends: 'done',
  },
  {
    that: 'takes longer than it takes to restart two replicas of three in turn',
    tool: untilTold,
    keepsEvents: true,
    options: draining('1s'),
    meanwhile: async (stage) => {
      const [one, two, three] = stage.gateways;
      await handOver(stage, one, two);
      await handOver(stage, two, three);
      stage.finish();
    },
    stateOnly: 2,
    questions: 0,
    ends: 'done',
  },
  {
    that: 'goes on after its question, while the replica stops over which the client waits',
    tool: async (call, { use, gateways: [, two], finished }) => {
      use(two);
      const name = await askName(call);
      await finished;
      return name;
    },
    options: draining('1s'),
    meanwhile: async ({ gateways: [one, two], use, finish }) => {
      await one.saw('call.resumed');
      use(one);
      expect(await two.drain()).toBe(0);
      await one.saw('call.resumed', 2);
      finish();
    },
    stateOnly: 1,
    questions: 1,
    ends: 'Ada',
  },
  {
    that: 'outlasts drain.timeout, and whose server does not number its events',
    tool: untilTold,
    options: draining('1s'),
    meanwhile: async ({ gateways: [one], legacy }) => {
      expect(await one.drain()).toBe(0);
      await legacy.saw('notifications/cancelled');
    },
    stateOnly: 0,
    questions: 0,
    ends: /The server may have acted on this call: check whether it took effect/,
  },
  {
    that: 'works for 9 s, where a connection is held for 2 s',
    tool: works(9_000),
    options: HELD,
    stateOnly: 2,
    questions: 0,
    ends: 'done',
  },
  {
    that: 'asks twice, 5 s apart, where a connection is held for 2 s',
    tool: async (call) => {
      const names: string[] = [];
      for (let asked = 0; asked < 2; asked += 1) {
        await sleep(5_000);
        names.push(await askName(call));
      }
      return names.join(' ');
    },
    options: HELD,
    stateOnly: 2,
    questions: 2,
    ends: 'Ada Ada',
  },
  {
    that: 'asks twelve questions 50 ms apart, none of which waits for another, and is called twice',
    calls: 2,
    tool: async (call) => {
      const asked = Array.from({ length: 12 }, async (_, index) => {
        await sleep(index * 50);
        return askName(call, `Name ${index}?`);
      });
      return (await Promise.all(asked)).join(' ');
    },
    stateOnly: 0,
    questions: 24,
    ends: Array(12).fill('Ada').join(' '),
  },
  {
    that: 'works for 14 s and asks then, where a connection is held for 1 s',
    tool: async (call) => {
      await sleep(14_000);
      return askName(call);
    },
    options: { route: { calls: { maxHold: '1s' } } },
    stateOnly: 2,
    questions: 1,
    ends: 'Ada',
  },
];

/** A tool that asks eleven times, and each time needs the answer first. */
const ELEVEN: Row = {
  that: 'asks eleven times in turn',
  tool: async (call) => {
    const names: string[] = [];
    while (names.length < 11) names.push(await askName(call));
    return names.join(' ');
  },
  // What a client leaves by itself ends with the time for its answer.
  options: { route: { parking: { ttl: '10s' } } },
  // The server learns of the end, once.
  meanwhile: async ({ legacy }) => {
    await legacy.saw('notifications/cancelled');
  },
  stateOnly: 0,
  questions: 10,
  ends: (client) =>
    client.startsWith('Go')
      ? /multi-round-trip: exceeded maximum retries \(10\)/
      : /"work" asked for input in more than 10 rounds \(parking\.maxRounds\)/,
};

/**
 * Plays a row for a client, and checks how its call ends.
 * @returns how many questions each round had that the gateways gave
 */
async function play(row: Row, client: string, call: (url: string) => Promise<string>) {
  const finishing = Promise.withResolvers<void>();
  const ran = { times: 0 };
  const tools = {
    work: (toolCall: ToolCall) => {
      ran.times += 1;
      return row.tool(toolCall, stage);
    },
  };
  const legacy = await legacyServer({ tools, keepsEvents: row.keepsEvents ?? false });
  const gateways = await replicas(legacy, 3, row.options);
  const front = await roundRobin([gateways[0]]);
  const stage: Stage = {
    legacy,
    gateways,
    use: ({ url }) => front.use([url]),
    finished: finishing.promise,
    finish: finishing.resolve,
  };
  const { calls = 1, ends } = row;
  const isDone = typeof ends === 'string';
  for (let made = 0; made < calls; made += 1) {
    const called = call(front.url);
    called.catch(() => {});
    await legacy.saw('tools/call');
    await row.meanwhile?.(stage);
    if (isDone) expect(await called).toBe(ends);
    else await expect(called).rejects.toThrow(typeof ends === 'function' ? ends(client) : ends);
  }
  expect(ran.times).toBe(calls);
  const cancelled = legacy.methods().filter((method) => method === 'notifications/cancelled');
  expect(cancelled).toHaveLength(isDone ? 0 : 1);
  const rounds = (await Promise.all(gateways.map((one) => one.written('call.parked')))).flat();
  return rounds.map(({ questions }) => Number(questions));
}

const counted = (rounds: readonly number[]) => ({
  stateOnly: rounds.filter((questions) => questions === 0).length,
  questions: rounds.reduce((sum, questions) => sum + questions, 0),
});

describe.each(MODERN_CLIENTS)('the client of the $name', ({ name, tags, prepare, call }) => {
  // Rules drain-2, drain-1, drain-5, shown-3, shown-7, time-and-room-3.
  test.each([...ROWS, ELEVEN])(
    'gets the rounds it stands from a tool that $that',
    { tags: [...tags, 'long'], timeout: 60_000 },
    async (row) => {
      prepare();
      const rounds = await play(row, name, (url) => call(url, 'work'));
      const { stateOnly, questions } = row;
      expect(counted(rounds)).toEqual({ stateOnly, questions });
    },
  );
});

describe('the client of @modelcontextprotocol/ext-tasks', () => {
  // Replicas with a relay and without Redis make no tasks.
  const alone = { relay: false };
  const rows: readonly Row[] = [
    ...ROWS.filter(({ options }) => options === HELD).map((row) => ({
      ...row,
      options: { ...alone, ...HELD },
      stateOnly: 0,
      questions: 0,
    })),
    {
      that: ELEVEN.that,
      tool: ELEVEN.tool,
      options: alone,
      stateOnly: 0,
      questions: 9,
      ends: Array(11).fill('Ada').join(' '),
    },
  ];
  // Rule promoted-24.
  test.each(rows)(
    'gets a task in place of the rounds it may not stand from a tool that $that',
    { tags: ['long'], timeout: 60_000 },
    async (row) => {
      // The task retries as a client would, and the log has that, too: what counts is what the client got.
      const rounds: number[] = [];
      await play(row, 'ext-tasks', async (url) => {
        const port = portTo(url, { onRound: (questions) => rounds.push(questions) });
        const session = withTasks(port, answering({ name: 'Ada' }));
        const execution = await session.callTool('work', {});
        expect(execution.kind).toBe('task');
        const { outcome } = await execution.settle();
        await session.close();
        const { content } = resultFromTaskOutcome(outcome) as { content: { text: string }[] };
        return content[0]!.text;
      });
      const { stateOnly, questions } = row;
      expect(counted(rounds)).toEqual({ stateOnly, questions });
    },
  );
});
