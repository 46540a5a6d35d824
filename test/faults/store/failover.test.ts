/**
 * Stores of several servers whose master crashes while calls are parked. Every retry gets the result of its
 * call, or an error that says that it may be repeated, and then the result; no tool acts twice.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import {
  answersOf,
  legacyServer,
  replicas,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import { askName, type LegacyServerOptions } from '../../fixtures/servers/legacy-server.ts';
import { callTool, type Exchanged } from '../../fixtures/clients/modern-client.ts';
import { redisCluster, sentinelGroup } from '../../fixtures/redis/redis-topologies.ts';

const RETRY_EVERY_MS = 50;

/** What both kinds of store offer. */
interface Store {
  readonly config: { readonly redis: object };
  /** Kills a master; resolves when another server has its place. */
  crash(): Promise<void>;
}

const STORES = [
  ['a Sentinel group', sentinelGroup],
  ['a Cluster', () => redisCluster({ withReplica: true })],
] as const satisfies readonly (readonly [string, () => Promise<Store>])[];

describe.each(STORES)(
  'while %s fails over',
  { tags: ['long', 'redis'], timeout: 60_000 },
  (_, startStore) => {
    // Rule store-8 (MRTR, "Server Requirements" 5): A failover of the store loses no call. A retry gets its result,
    // or a retryable error first.
    test('calls whose owner lives are served, here and relayed over HTTP, those at work as well', async () => {
      const { effects, tools, finish } = greeters();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const { config, crash } = await startStore();
      const [one, other] = await replicas(legacy, 2, { config });
      const slow = await callTool(one.url, 'slow');
      const names = callers(8);
      const asked = await Promise.all(names.map(() => callTool(one.url, 'greet')));
      const atWork = served([other], answersOf(slow, 'Ada'), 'slow');
      await legacy.saw('response');
      const over = crash();
      const done = await Promise.all(
        asked.map((each, index) =>
          served([index % 2 === 0 ? one : other], answersOf(each, names[index] ?? '')),
        ),
      );
      await over;
      finish();
      expect(done.map(text)).toEqual(names.map((name) => `Hello ${name}`));
      expect(text(await atWork)).toBe('Hello Ada');
      expect(effects.toSorted()).toEqual(['Ada', ...names]);
      const calls = legacy.methods().filter((method) => method === 'tools/call');
      expect(calls).toHaveLength(1 + names.length);
    });

    // Rule store-8.
    test('calls whose owner dies are resumed, and retries that reach two replicas at once act once', async () => {
      const { effects, tools } = greeters();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const { config, crash } = await startStore();
      const [one, other, third] = await replicas(legacy, 3, { config });
      const names = callers(8);
      const asked = await Promise.all(names.map(() => callTool(one.url, 'greet')));
      const over = crash();
      await one.kill();
      const retried = asked.flatMap((each, index) => {
        const answers = answersOf(each, names[index] ?? '');
        return [served([other, third], answers), served([third, other], answers)];
      });
      const done = await Promise.all(retried);
      await over;
      expect(done.map(text)).toEqual(names.flatMap((name) => Array(2).fill(`Hello ${name}`)));
      expect(effects.toSorted()).toEqual(names);
    });
  },
);

/** Tools that ask a name; `slow` does not answer before it is told to. */
function greeters() {
  const effects: string[] = [];
  const finishing = Promise.withResolvers<void>();
  const tools: LegacyServerOptions['tools'] = {
    greet: async (call) => {
      const name = await askName(call);
      effects.push(name);
      return `Hello ${name}`;
    },
    slow: async (call) => {
      const name = await askName(call);
      effects.push(name);
      await finishing.promise;
      return `Hello ${name}`;
    },
  };
  return { effects, tools, finish: finishing.resolve };
}

const callers = (count: number) => Array.from({ length: count }, (_, index) => `caller ${index}`);

/** The first answer that is final, of replicas that are asked in turns for as long as they say to come again. */
async function served(
  gateways: readonly GatewayProcess[],
  answers: ReturnType<typeof answersOf>,
  tool = 'greet',
): Promise<Exchanged> {
  for (let turn = 0; ; turn += 1) {
    const gateway = gateways[turn % gateways.length];
    const answer = await callTool(String(gateway?.url), tool, answers);
    if (answer.response.error?.data?.retryable !== true) return answer;
    await pause(RETRY_EVERY_MS);
  }
}
