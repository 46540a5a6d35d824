/**
 * Replicas of an earlier version beside those of this one, as in a rolling upgrade: real processes of both, told
 * apart by nothing but what clients and the server see.
 */
import { describe, expect, test } from 'vitest';
import { callTool, type Exchanged } from '../../fixtures/clients/modern-client.ts';
import {
  commandOf,
  LETTERS,
  MESSAGES,
  type EarlierVersion,
} from '../../fixtures/gateways/earlier-version.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  redisServer,
  replica,
  slowGreeter,
  text,
  whileRetryable,
} from '../../fixtures/gateways/replica-testbed.ts';
import type { LegacyServer } from '../../fixtures/servers/legacy-server.ts';

/** How long an operator is told that a retry whose owner does not answer takes at most, in ms. */
const UNANSWERED_MS = 5_000;

const WAYS = [
  { way: 'over HTTP', tags: [], options: async () => ({}) },
  {
    way: 'over HTTP, with a store',
    tags: ['redis'],
    options: async () => ({ redis: (await redisServer()).url }),
  },
  {
    way: 'through Redis',
    tags: ['redis'],
    options: async () => ({
      ...{ redis: (await redisServer()).url, relay: false, config: { relay: { via: 'redis' } } },
    }),
  },
];

type Options = Parameters<typeof replica>[1];

async function bothVersions(
  legacy: LegacyServer,
  version: EarlierVersion,
  options: Options,
): Promise<{ earlier: GatewayProcess; present: GatewayProcess }> {
  const [earlier, present] = await Promise.all([
    replica(legacy, { ...options, command: commandOf(version) }),
    replica(legacy, options),
  ]);
  return { earlier, present };
}

/** Calls the tool at one replica, and retries at the other. */
async function asked(
  first: GatewayProcess,
  second: GatewayProcess,
): Promise<() => Promise<Exchanged>> {
  const question = await callTool(first.url, 'greet');
  return () => callTool(second.url, 'greet', answersOf(question, 'Ada'));
}

for (const version of [LETTERS, MESSAGES])
  for (const { way, tags, options } of WAYS)
    describe(
      `beside ${version.name}, ${way}`,
      { tags: ['long', 'git-history', ...tags], timeout: 90_000 },
      () => {
        const isUnderstood = !(version === LETTERS && way === 'through Redis');

        // Rule relay-15: Replicas of the version before are relayed to and from in what they speak. What they
        // cannot read is an error that says whether to retry; nothing is done twice, and nothing hangs.
        test('a call that is parked there is answered here', async () => {
          const { effects, tools } = greeter();
          const legacy = await legacyServer({ tools });
          const { earlier, present } = await bothVersions(legacy, version, await options());
          const retry = await asked(earlier, present);
          const began = performance.now();
          const done = await retry();
          expect(performance.now() - began).toBeLessThan(UNANSWERED_MS);
          if (isUnderstood) {
            expect(text(done)).toBe('Hello Ada');
            expect(await present.rungs()).toEqual(['relay']);
          } else {
            expect(done.response.error.data).toMatchObject({
              ...{ reason: 'coordination_unavailable', retryable: true },
            });
            const [call] = await earlier.saw('call.parked');
            expect(call).toBeDefined();
          }
          expect(effects).toEqual(isUnderstood ? ['Ada'] : []);
        });

        // Rule relay-15.
        test('a call that is parked here is answered there, or refused with a clear error', async () => {
          const { effects, tools } = greeter();
          const legacy = await legacyServer({ tools });
          const { earlier, present } = await bothVersions(legacy, version, await options());
          const question = await callTool(present.url, 'greet');
          const answers = answersOf(question, 'Ada');
          const there = await callTool(earlier.url, 'greet', answers);
          if (version === MESSAGES) {
            expect(text(there)).toBe('Hello Ada');
            expect(await earlier.rungs()).toEqual(['relay']);
          } else {
            expect(there.response.error.code).toBe(-32602);
            expect(reasonOf(there)).toBe('invalid_request_state');
          }
          // The call is here as before.
          expect(text(await callTool(present.url, 'greet', answers))).toBe('Hello Ada');
          expect(effects).toEqual(['Ada']);
        });

        // Rule relay-15.
        test.runIf(isUnderstood)('a client that leaves has its call cancelled there', async () => {
          const { tools } = slowGreeter();
          const legacy = await legacyServer({ tools });
          const { earlier, present } = await bothVersions(legacy, version, await options());
          const question = await callTool(earlier.url, 'greet');
          const leaving = new AbortController();
          const left = callTool(present.url, 'greet', answersOf(question, 'Ada'), {
            signal: leaving.signal,
          }).catch(() => 'left');
          await legacy.saw('response');
          leaving.abort();
          expect(await left).toBe('left');
          await legacy.saw('notifications/cancelled');
        });

        // Rule relay-15.
        test('a call whose replica is gone is resumed here', async () => {
          const { effects, tools } = greeter();
          const legacy = await legacyServer({ tools, keepsEvents: true });
          const { earlier, present } = await bothVersions(legacy, version, await options());
          const retry = await asked(earlier, present);
          await earlier.kill();
          expect(text(await whileRetryable(retry))).toBe('Hello Ada');
          expect(await present.rungs()).toEqual(['reattach']);
          expect(effects).toEqual(['Ada']);
        });
      },
    );
