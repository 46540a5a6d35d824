/**
 * Event stores of real servers, shaped as those in the examples of the SDKs, while owners are killed,
 * drained and restarted: each caller gets its own result, or an honest error. That of the Python SDK names
 * streams by the JSON-RPC request id and is shared by all sessions; those of the TypeScript and the Go SDK
 * do not. `ROLLING_MS` prolongs the rolling restarts (60000 is a minute).
 */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { keepSecret, type Kept } from '../../fixtures/clients/secret-keeper.ts';
import { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import { legacyServer } from '../../fixtures/gateways/replica-testbed.ts';
import { startServer } from '../../fixtures/processes.ts';
import { startPythonStoreServer } from '../../fixtures/real-servers/python/python-server.ts';
import { askName, type LegacyServerOptions } from '../../fixtures/servers/legacy-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { GO_SERVER } from '../../run/needs.ts';

const ROLLING_MS = z.coerce.number().parse(process.env['ROLLING_MS'] ?? 8_000);

const CALLERS = ['alice', 'bob', 'carol'];
/** What a client is told whose call did not come to its end. */
const HONEST = new Set([
  'call_lost',
  'coordination_unavailable',
  'draining',
  'invalid_request_state',
  'stopping',
  'upstream_unavailable',
  'connection broken',
]);

async function pythonServer(): Promise<string> {
  const server = await startPythonStoreServer('event-store');
  stopAfterTest(() => server.stop());
  return `${server.origin}/mcp`;
}

async function typescriptServer(): Promise<string> {
  const tools: LegacyServerOptions['tools'] = {
    keep: async (call) => {
      const who = String(call.args['who']);
      return `${who}: ${await askName(call, `The secret of ${who}?`, 'secret')}`;
    },
  };
  return (await legacyServer({ tools, keepsEvents: true })).url;
}

async function goServer(): Promise<string> {
  const server = await startServer(String(GO_SERVER), [], { ready: /listening on/ });
  stopAfterTest(() => server.stop());
  return `${server.origin}/events`;
}

async function gateway(upstream: string): Promise<GatewayProcess> {
  const started = await GatewayProcess.start({ upstream });
  stopAfterTest(() => started.kill());
  return started;
}

const ownOf = (who: string): Kept => ({
  who,
  asked: [`The secret of ${who}?`],
  text: `${who}: secret of ${who}`,
  reason: null,
});

const SDKS = [
  { sdk: 'Python', tags: ['python'], server: pythonServer },
  { sdk: 'TypeScript', tags: [], server: typescriptServer },
  { sdk: 'Go', tags: ['go'], server: goServer },
];

for (const { sdk, tags, server } of SDKS)
  describe(`an event store of the ${sdk} SDK`, { tags }, () => {
    test.each([
      { how: 'killed', end: (owner: GatewayProcess) => owner.kill() },
      { how: 'drained', end: (owner: GatewayProcess) => owner.drain() },
    ])('gives each caller its own result when their owner is $how', async ({ end }) => {
      const upstream = await server();
      const [owner, other] = [await gateway(upstream), await gateway(upstream)];
      let url = owner.url;
      let asked = 0;
      const ended = Promise.withResolvers<void>();
      const beforeAnswer = async () => {
        asked += 1;
        if (asked === CALLERS.length) {
          url = other.url;
          await end(owner);
          ended.resolve();
        }
        await ended.promise;
      };
      const kept = await Promise.all(
        CALLERS.map((who) => keepSecret(() => url, who, { beforeAnswer })),
      );
      expect(kept).toEqual(CALLERS.map(ownOf));
      expect(await other.recoveries()).toEqual(CALLERS.map(() => 'reattach'));
    });

    test(
      'gives each caller its own result or a clear error through rolling restarts',
      { tags: ['long'], timeout: ROLLING_MS + 60_000 },
      async () => {
        const upstream = await server();
        const replicas = [await gateway(upstream), await gateway(upstream)];
        const until = performance.now() + ROLLING_MS;
        const kept: Kept[] = [];
        const callAgainAndAgain = async (who: string) => {
          for (let time = 0; performance.now() < until; time += 1) {
            const name = `${who} ${time}`;
            const url = () => replicas[time % 2]?.url ?? '';
            kept.push(await keepSecret(url, name).catch(() => broken(name)));
          }
        };
        const restart = async () => {
          for (let turn = 0; performance.now() < until; turn += 1) {
            const fresh = await gateway(upstream);
            const old = replicas[turn % 2];
            replicas[turn % 2] = fresh;
            // Every other one has no time to say farewell.
            await (turn % 2 === 0 ? old?.drain() : old?.kill());
          }
        };
        await Promise.all([...CALLERS.map(callAgainAndAgain), restart()]);
        const dishonest = kept.filter(
          (one) =>
            one.text !== ownOf(one.who).text && (one.reason === null || !HONEST.has(one.reason)),
        );
        expect(dishonest).toEqual([]);
        const strange = kept.flatMap(({ who, asked }) =>
          asked.filter((question) => question !== `The secret of ${who}?`),
        );
        expect(strange).toEqual([]);
        expect(kept.filter(({ reason }) => reason === null).length).toBeGreaterThan(0);
      },
    );
  });

function broken(who: string): Kept {
  return { who, asked: [], text: null, reason: 'connection broken' };
}
