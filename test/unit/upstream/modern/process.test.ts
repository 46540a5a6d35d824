/** The process of a modern server, played: when it is read, what a client that is behind misses, and when another one is tried. */
import { expect, test } from 'vitest';
import type { ChannelListener, PermittedChannel } from '../../../../src/model/channel.ts';
import type { ModernListener } from '../../../../src/model/modern-server.ts';
import { UpstreamFailure } from '../../../../src/model/upstream-failure.ts';
import { readMessage } from '../../../../src/protocol/json-rpc.ts';
import { ModernProcess } from '../../../../src/upstream/modern/process.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

const DISCOVERED = { supportedVersions: ['2026-07-28'], capabilities: {} };
const FAILS = new UpstreamFailure('upstream_unavailable', 'it ends', { mayHaveActed: true });

function played() {
  const clock = new ManualClock();
  const sent: { id?: number; method: string; params: { progressToken?: unknown } }[] = [];
  const state = { isPaused: false, starts: 0, use: '', failsToStart: false, endsAtOnce: false };
  let listener: ChannelListener | null = null;
  const say = (message: object) => {
    const line = JSON.stringify({ jsonrpc: '2.0', ...message });
    listener?.messages([readMessage(JSON.parse(line))], line);
  };
  const open = async (to: ChannelListener): Promise<PermittedChannel> => {
    state.starts += 1;
    if (state.failsToStart) throw FAILS;
    listener = to;
    return {
      send: async (line) => {
        const message = JSON.parse(line);
        sent.push(message);
        if (message.method !== 'server/discover') return;
        say({ id: message.id, result: DISCOVERED });
        if (state.endsAtOnce) to.ended(FAILS);
      },
      renew: () => {},
      pause: () => void (state.isPaused = true),
      resume: () => void (state.isPaused = false),
      end: async () => {},
      use: (use) => void (state.use = use),
    };
  };
  const server = new ModernProcess({
    ...{ clock, open, idleTimeoutMs: 1_000, startTimeoutMs: 1_000, gatewayInfo: {} },
    ...{ onDiscovered: () => {}, onSilent: () => {}, onEmpty: () => {} },
  });
  const request = async (method: string, params = {}, timeoutMs: number | null = null) => {
    const told: unknown[] = [];
    const listening: ModernListener = {
      notified: (about, { progress }) => told.push(progress === undefined ? about : progress),
      replied: (reply) => told.push('result' in reply ? 'result' : 'error'),
      failed: ({ code }) => told.push(code),
    };
    const asked = server.send({ method, params, headers: {}, timeoutMs }, listening);
    await settled();
    return { told, asked, id: sent.at(-1)?.id ?? 0 };
  };
  const progress = (progressToken: number, value: number) =>
    say({ method: 'notifications/progress', params: { progressToken, progress: value } });
  return {
    clock,
    state,
    sent,
    say,
    server,
    request,
    progress,
    crash: () => listener?.ended(FAILS),
  };
}

async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

const TOKEN = { _meta: { progressToken: 'mine' } };

// Rule modern-stdio-39: A process is not read while every waiting client is behind.
test('a process is not read while all clients are behind, and what one of several would get is dropped', async () => {
  const { state, request, progress, say } = played();
  const slow = await request('tools/call', TOKEN);
  progress(slow.id, 1);
  slow.asked.pause();
  expect(state.isPaused).toBe(true);
  const quick = await request('tools/call', TOKEN);
  expect(state.isPaused).toBe(false);
  progress(slow.id, 2);
  progress(quick.id, 3);
  slow.asked.resume();
  progress(slow.id, 4);
  slow.asked.pause();
  say({ id: quick.id, result: {} });
  expect(state.isPaused).toBe(true);
  slow.asked.resume();
  say({ id: slow.id, result: {} });
  expect(slow.told).toEqual([1, 4, 'result']);
  expect(quick.told).toEqual([3, 'result']);
});

// Rule modern-stdio-36.
test('a request whose time is over is cancelled, and its late reply reaches nobody', async () => {
  const { clock, sent, request, say } = played();
  const asked = await request('tools/list', {}, 500);
  clock.advance(500);
  await settled();
  expect(asked.told).toEqual(['upstream_timeout']);
  expect(sent.at(-1)).toMatchObject({
    method: 'notifications/cancelled',
    params: { requestId: asked.id },
  });
  say({ id: asked.id, result: {} });
  expect(asked.told).toHaveLength(1);
});

// Rule modern-stdio-10.
test('a subscription waits for a process that can be started again, and a call does not', async () => {
  const { clock, state, request, say, crash } = played();
  const listener = await request('subscriptions/listen');
  const _meta = { 'io.modelcontextprotocol/subscriptionId': listener.id };
  const acknowledged = { method: 'notifications/subscriptions/acknowledged', params: { _meta } };
  say(acknowledged);
  state.failsToStart = true;
  crash();
  await settled();
  expect((await request('tools/call')).told).toEqual(['upstream_unavailable']);
  expect(listener.told).toEqual([acknowledged.method]);
  state.failsToStart = false;
  clock.advance(1_000);
  await settled();
  const notifications = { promptsListChanged: true };
  say({ ...acknowledged, params: { _meta, notifications } });
  expect(listener.told).toEqual([acknowledged.method, 'notifications/prompts/list_changed']);
  expect(state.use).toBe('stream');
});

// Rule modern-stdio-6.
test('a process ends when it was idle for long enough, and a request in time keeps it', async () => {
  const { clock, state, request, say } = played();
  const answer = async () => {
    const asked = await request('tools/list');
    say({ id: asked.id, result: {} });
  };
  await answer();
  clock.advance(999);
  await answer();
  clock.advance(999);
  await answer();
  expect(state.starts).toBe(1);
  clock.advance(1_000);
  await answer();
  expect(state.starts).toBe(2);
});

// Rule modern-stdio-10.
test('a process that ends with its first reply is not used, and the next request starts another', async () => {
  const { state, request, say } = played();
  state.endsAtOnce = true;
  expect((await request('tools/call')).told).toEqual(['upstream_unavailable']);
  state.endsAtOnce = false;
  const next = await request('tools/call');
  say({ id: next.id, result: {} });
  expect(next.told).toEqual(['result']);
  expect(state.starts).toBe(2);
});
