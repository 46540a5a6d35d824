/** How many sessions a legacy client can open. */
import { expect, test } from 'vitest';
import { readInitialize } from '../../../../src/front/legacy/endpoint.ts';
import { LegacySessions } from '../../../../src/front/legacy/sessions.ts';
import { ByteBudget } from '../../../../src/lib/byte-budget.ts';
import type { ChannelServer } from '../../../../src/model/channel.ts';
import { parseMessage } from '../../../../src/protocol/json.ts';
import { readMessage } from '../../../../src/protocol/json-rpc.ts';
import { initializeOf } from '../../../fixtures/clients/legacy-http.ts';
import { RecordedLog } from '../../../fixtures/gateways/gateway.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

/** A server whose processes answer at once. */
function instantServer(): ChannelServer {
  return {
    ...{ route: 'default', idleTimeoutMs: 60_000, initializeTimeoutMs: 1_000 },
    ...{ keepsNothing: false, learnsRoots: true, hasChanged: async () => false },
    open: async (_owner, listener) => ({
      send: async () => {
        const reply = { jsonrpc: '2.0', id: 'init', result: { protocolVersion: '2025-11-25' } };
        listener.messages([readMessage(reply)], JSON.stringify(reply));
      },
      ...{ pause: () => {}, resume: () => {}, end: async () => {}, use: () => {} },
      renew: () => {},
    }),
  };
}

function stage() {
  const clock = new ManualClock();
  const log = new RecordedLog();
  const budget = new ByteBudget(() => 1_000_000);
  const sessions = new LegacySessions({ clock, log, budget });
  const server = instantServer();
  const message = readInitialize(parseMessage(JSON.stringify(initializeOf())))!;
  const open = (principal: string | null) =>
    sessions.open(
      { server, owner: { principal, principalKey: principal ?? '' }, headers: {} },
      '{}',
      message,
      { isOpen: true },
    );
  return { sessions, log, open };
}

// Rule face-29: A principal that opens more than 300 sessions a minute gets an error. Beyond 10,000 sessions of a
// process the longest idle one ends.
test('a principal that opens sessions too fast gets an error, and others do not', async () => {
  const { sessions, log, open } = stage();
  for (let i = 0; i < 300; i += 1) expect((await open('ada')).key).not.toBeNull();
  const { key, line } = await open('ada');
  expect(key).toBeNull();
  expect(JSON.parse(line).error.message).toMatch(/300 sessions within a minute.*allowed in \d+ s/);
  expect((await open('eve')).key).not.toBeNull();
  expect(log.named('legacy_session.refused')).toHaveLength(1);
  await sessions.close();
});

// Rule face-29.
test('where a process has all the sessions that it can have, the longest idle one ends', async () => {
  const { sessions, open } = stage();
  const first = await open(null);
  const second = await open(null);
  for (let i = 2; i < 10_000; i += 1) await open(null);
  const found = ({ key }: { key: string | null }) => sessions.find(key ?? '', 'default') !== null;
  expect([found(first), found(second)]).toEqual([true, true]);
  expect((await open(null)).key).not.toBeNull();
  expect([found(first), found(second)]).toEqual([false, true]);
  await sessions.close();
});
