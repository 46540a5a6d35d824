/** Servers over stdio behind several processes of the gateway: the process of a caller is found, and none is left. */
import { describe, expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import type { GatewayProcessOptions } from '../../fixtures/gateways/gateway-process.ts';
import { answersOf, text } from '../../fixtures/gateways/replica-testbed.ts';
import {
  stdioGateways,
  TWO_THROUGH_REDIS,
  TWO_WORKERS,
} from '../../fixtures/gateways/stdio-gateways.ts';
import { isRunning, until } from '../../fixtures/process-ids.ts';

/** Any worker can take a connection. */
const as = (name: string) => ({
  headers: { connection: 'close', authorization: `Bearer ${name}` },
});

async function gateways(count: number, options: Partial<GatewayProcessOptions>) {
  const { pids, started } = await stdioGateways(count, options);
  let turn = 0;
  const call = (caller: string, tool: string, more: object = {}) => {
    turn += 1;
    return callTool(started[turn % count]?.url ?? '', tool, more, as(caller));
  };
  return { pids, started, call };
}

describe.each([TWO_WORKERS, TWO_THROUGH_REDIS])(
  '%s',
  { timeout: 90_000 },
  (_name, count, options, tags) => {
    // Rule sessions-16.
    test('find the process of a caller, and leave none', { tags: [...tags] }, async () => {
      const { pids, started, call } = await gateways(count, await options());
      for (const caller of ['ada', 'bob']) {
        const own = [];
        for (let at = 0; at < 4; at += 1) own.push(text(await call(caller, 'pid')));
        expect(new Set(own).size).toBe(1);
        const asked = await call(caller, 'ask');
        expect(text(await call(caller, 'ask', answersOf(asked, caller)))).toBe(caller);
        expect(text(await call(caller, 'pid'))).toBe(own[0]);
      }
      const running = (await pids.all()).filter(isRunning);
      expect(running).toHaveLength(2);
      await Promise.all(started.map((gateway) => gateway.drain()));
      await until(() => !running.some(isRunning));
      expect((await pids.all()).filter(isRunning)).toEqual([]);
    });
  },
);
