/**
 * A client that is behind with what it reads, while its call moves to another replica. What the gateway has read from the
 * server, and the client has not had, is not acknowledged: the next replica gets it again.
 */
import { describe, expect, test } from 'vitest';
import type { GatewayProcess } from '../fixtures/gateways/gateway-process.ts';
import {
  answersOf,
  legacyServer,
  replicas,
  text,
  whileRetryable,
} from '../fixtures/gateways/replica-testbed.ts';
import { askName } from '../fixtures/servers/legacy-server.ts';
import { MIB, openCall, type Taken } from '../fixtures/servers/flood.ts';
import type { Tool, ToolCall } from '../fixtures/servers/legacy/tools.ts';
import { callTool } from '../fixtures/clients/modern-client.ts';

/** More than a connection holds whose client reads nothing: all that follows waits for the client. */
const LONG_MESSAGE = 'x'.repeat(24 * MIB);

const FORM = { message: 'Sure?', requestedSchema: { type: 'object', properties: {} } } as const;

/** Two replicas in front of a server whose tools say more than a client takes that reads nothing, and then end, or ask. */
async function stage(route: object) {
  const calls: ToolCall[] = [];
  const asked = Promise.withResolvers<void>();
  const say = async (call: ToolCall) => {
    calls.push(call);
    const { extra } = call;
    const progressToken = extra._meta?.progressToken ?? 'none';
    const params = { progressToken, progress: 1, message: LONG_MESSAGE };
    await extra.sendNotification({ method: 'notifications/progress', params });
  };
  const talk: Tool = async (call) => (await say(call), 'done');
  const inquire: Tool = async (call) => {
    await say(call);
    const answer = askName(call);
    // It is written in this turn.
    setImmediate(asked.resolve);
    return `done by ${await answer}`;
  };
  const legacy = await legacyServer({ tools: { talk, inquire }, keepsEvents: true });
  const upstream = { url: legacy.url, maxEvent: '64MiB' };
  const [one, other] = await replicas(legacy, 2, { route: { upstream, ...route } });
  return { legacy, one, other, calls, asked: asked.promise };
}

/** A call at the first replica whose client reads nothing. The server has written its result. */
async function behind(route: object) {
  const { legacy, one, other, calls } = await stage(route);
  const call = await openCall(one.url, 'talk');
  await legacy.hasResponded('tools/call');
  await settled(one);
  /** Asks beside the stream of the call. */
  const ask = () => void calls[0]?.server.elicitInput(FORM).catch(() => {});
  return { one, other, call, ask, calls };
}

/** Resolves when a process has read what lay in its sockets. */
async function settled(gateway: GatewayProcess): Promise<void> {
  for (let request = 0; request < 3; request += 1) await fetch(`${gateway.adminUrl}/metrics`);
}

/** Retries with what the client was told, as a client does. */
async function retried(gateway: GatewayProcess, { response }: Taken) {
  const { requestState } = response.result;
  return text(await callTool(gateway.url, 'talk', { requestState }));
}

describe('a client that is behind gets the result of its call from another replica', () => {
  // Rule resumption-1.
  test('if its own replica stops', async () => {
    const { one, other, call, calls } = await behind({});
    const gone = one.drain();
    await one.saw('call.ended');
    const taken = await call.take();
    expect(await gone).toBe(0);
    expect(await retried(other, taken)).toBe('done');
    expect(calls).toHaveLength(1);
  });

  // Rule resumption-1.
  test('if its own replica releases the call', async () => {
    const { one, other, call, ask, calls } = await behind({
      parking: { release: 'when-resumable' },
    });
    ask();
    await one.saw('call.parked');
    expect(await retried(other, await call.take())).toBe('done');
    expect(calls).toHaveLength(1);
  });

  // Rule resumption-1.
  test('if its own replica dies', async () => {
    const { one, other, call, calls } = await behind({ calls: { maxHold: '1s' } });
    await one.saw('call.parked');
    const taken = await call.take();
    await one.kill();
    expect(await retried(other, taken)).toBe('done');
    expect(calls).toHaveLength(1);
  });
});

describe('a client that is behind is asked by another replica what the server has asked meanwhile', () => {
  // Rule resumption-1.
  test.each(['drain', 'kill'] as const)('after the %s of its own', async (end) => {
    const route = end === 'kill' ? { calls: { maxHold: '1s' } } : {};
    const { one, other, calls, asked } = await stage(route);
    const call = await openCall(one.url, 'inquire');
    await asked;
    await settled(one);
    let gone: Promise<unknown> = Promise.resolve();
    if (end === 'drain') {
      gone = one.drain();
      await one.saw('call.ended');
    } else await one.saw('call.parked');
    const { response } = await call.take();
    if (end === 'kill') gone = one.kill();
    await gone;
    const { requestState, inputRequests } = response.result;
    expect(inputRequests ?? {}).toEqual({});
    const again = await whileRetryable(() => callTool(other.url, 'inquire', { requestState }));
    expect(text(await callTool(other.url, 'inquire', answersOf(again, 'Ada')))).toBe('done by Ada');
    expect(calls).toHaveLength(1);
  });
});
