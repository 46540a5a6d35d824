/**
 * Replicas that are cut off from the store, by cables that are pulled between network namespaces. Each call has
 * its effect once; every retry gets its result, or is told that it may be repeated, and then gets it.
 */
import { describe, expect, test } from 'vitest';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  slowGreeter,
  text,
  whileRetryable,
} from '../../fixtures/gateways/replica-testbed.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { separateReplicas } from '../../fixtures/network/partitions.ts';

const THROUGH_REDIS = { config: { relay: { via: 'redis' } } };

describe(
  'a replica that is cut off from the store',
  { tags: ['long', 'namespaces', 'redis'], timeout: 60_000 },
  () => {
    // Rule store-7: A replica that was frozen, or cut off from the store, does not act again on calls that others
    // took over.
    test('and owns calls serves them here and over HTTP; its calls are resumed when it dies', async () => {
      const { effects, tools } = greeter();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const [one, two] = await separateReplicas(legacy);
      const [here, relayed, taken] = [
        await callTool(one.url, 'greet'),
        await callTool(one.url, 'greet'),
        await callTool(one.url, 'greet'),
      ];
      one.cut();
      expect(text(await callTool(one.url, 'greet', answersOf(here, 'Ada')))).toBe('Hello Ada');
      expect(text(await callTool(two.url, 'greet', answersOf(relayed, 'Eve')))).toBe('Hello Eve');
      await one.gateway.saw('redis.down');
      await one.gateway.kill();
      const zoe = await whileRetryable(() => callTool(two.url, 'greet', answersOf(taken, 'Zoe')));
      expect(text(zoe)).toBe('Hello Zoe');
      expect(effects).toEqual(['Ada', 'Eve', 'Zoe']);
    });

    // Rule store-7.
    test('and owns a call does not act on it a second time when it is back', async () => {
      const { effects, tools } = greeter();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const [one, two] = await separateReplicas(legacy, THROUGH_REDIS);
      const asked = await callTool(one.url, 'greet');
      const answers = answersOf(asked, 'Ada');
      one.cut();
      // Its lease ends, and the other one takes the call up; both are asked at once all the while.
      const [here, ...elsewhere] = await Promise.all(
        [one, two, two].map(({ url }) => whileRetryable(() => callTool(url, 'greet', answers))),
      );
      expect(here?.response.result?.content[0].text).toBe('Hello Ada');
      // The owner served the call, and can tell nobody: then the other one can only say that it is lost.
      for (const answer of elsewhere) {
        expect(['Hello Ada', 'call_lost']).toContain(reasonOf(answer) ?? text(answer));
      }
      expect(effects).toEqual(['Ada']);
      one.mend();
      await one.gateway.saw('redis.up', 2);
      const again = await whileRetryable(() => callTool(one.url, 'greet', answers));
      expect(text(again)).toBe('Hello Ada');
      const different = await whileRetryable(() =>
        callTool(one.url, 'greet', answersOf(asked, 'Eve')),
      );
      expect(reasonOf(different)).toBe('invalid_request_state');
      expect(effects).toEqual(['Ada']);
    });

    // Rule store-7.
    test('while it relays says that the retry may be repeated, and gets its response when it is back', async () => {
      const { effects, tools, finish } = slowGreeter();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const [one, two] = await separateReplicas(legacy, THROUGH_REDIS);
      const asked = await callTool(one.url, 'greet');
      const answers = answersOf(asked, 'Ada');
      const retried = callTool(two.url, 'greet', answers);
      await legacy.saw('response');
      two.cut();
      const refused = await retried;
      expect(reasonOf(refused)).toBe('coordination_unavailable');
      expect(refused.response.error.data.retryable).toBe(true);
      two.mend();
      await two.gateway.saw('redis.up', 2);
      finish();
      const done = await whileRetryable(() => callTool(two.url, 'greet', answers));
      expect(text(done)).toBe('Hello Ada');
      expect(effects).toEqual(['Ada']);
      expect(legacy.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
    });
  },
);
