/** A question that names no call, over several replicas: it is shown in the call that asked it, and in no other. */
import { expect, test } from 'vitest';
import { callTool, type SendOptions } from '../../fixtures/clients/modern-client.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import {
  answersOf,
  legacyServer,
  redisServer,
  replicas,
  text,
  whileRetryable,
} from '../../fixtures/gateways/replica-testbed.ts';
import { askName } from '../../fixtures/servers/legacy-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const ADA: SendOptions = { headers: { authorization: 'Bearer ada' } };
const call = (gateway: GatewayProcess, name: string, more: object = {}) =>
  callTool(gateway.url, name, more, ADA);

/** `twice` asks on its stream and then works until the test lets it end; `asks` asks beside its stream. */
async function workingServer() {
  const working = Promise.withResolvers<void>();
  stopAfterTest(async () => working.resolve());
  const server = await legacyServer({
    keepsEvents: true,
    tools: {
      twice: async (asking) => {
        const name = await askName(asking);
        await working.promise;
        return name;
      },
      asks: async ({ server }) => {
        const { action, content } = await server.elicitInput({
          message: 'Who?',
          requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
        });
        return String(content?.['name'] ?? action);
      },
      plain: async () => 'plain',
    },
  });
  return { server, finish: working.resolve };
}

// Rule questions-10: With several processes, a question that names no call is shown only by a process that has the home of the
// caller, or opened the session itself. One that took the session over for a call alone holds such a question for 30 s, and
// then declines it: it can be one of a call that is elsewhere.
test(
  'a resumed call is not asked what another call of its caller asks at a third replica',
  { tags: ['redis', 'long'] },
  async () => {
    const redis = await redisServer();
    const { server, finish } = await workingServer();
    const [a, b, c] = await replicas(server, 3, { redis: redis.url });
    const asked = await call(a, 'twice');
    await a.kill();
    const twice = whileRetryable(() => call(b, 'twice', answersOf(asked, 'Ada')));
    await server.saw('response');
    expect(text(await whileRetryable(() => call(c, 'plain')))).toBe('plain');
    expect(text(await call(c, 'asks'))).toBe('cancel');
    finish();
    expect(text(await twice)).toBe('Ada');
  },
);
