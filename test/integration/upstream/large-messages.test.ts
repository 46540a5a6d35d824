/** A server whose messages share one stream sends one that is too large: what becomes of its call, and of the others. */
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { accept, callTool, send, type Exchanged } from '../../fixtures/clients/modern-client.ts';
import type { TestGateway } from '../../fixtures/gateways/gateway.ts';
import { gatewayBefore, testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { isRunning, until } from '../../fixtures/process-ids.ts';
import { LARGE, serveLarge } from '../../fixtures/servers/large-messages.ts';
import { eventStream, ScriptedServer } from '../../fixtures/servers/scripted-server.ts';

const PROGRAM = fileURLToPath(new URL('../../fixtures/servers/large-messages.ts', import.meta.url));
const LIMITS = { upstream: { maxEventBytes: LARGE / 4, maxBodyBytes: LARGE / 4 } };
/** The client is told the limit and, if the message was read to its end, the size. */
const TOO_LARGE =
  /The server sent a message that is too large for the gateway \(upstream\.maxEvent is 25000 bytes, and it has \d+ bytes\)/;

interface Ground extends TestGateway {
  /** Resolves when nothing is left of the session with this name. */
  readonly ended: (session: string) => Promise<void>;
}

async function overStdio(): Promise<Ground> {
  const gateway = await testGateway({ command: process.execPath, args: [PROGRAM] }, LIMITS);
  return { ...gateway, ended: (pid) => until(() => !isRunning(Number(pid))) };
}

async function overHttp(): Promise<Ground> {
  const sessions = new Map<string, ReturnType<typeof serveLarge>>();
  const server = await ScriptedServer.start((received, response) => {
    if (received.path === '/mcp' && received.method === 'POST') {
      return void response.writeHead(405).end();
    }
    if (received.method === 'POST') {
      response.writeHead(202).end();
      return sessions.get(received.path)?.(received.body);
    }
    const { raw, send: sendWhole } = eventStream(response);
    const path = `/messages/${Math.random()}`;
    let isBegun = false;
    const write = (text: string, isWhole = true) => {
      if (response.destroyed) return;
      if (isWhole && text.length < LARGE) return sendWhole(JSON.parse(text));
      raw(`${isBegun ? '' : 'event: message\r\ndata: '}${text}${isWhole ? '\r\n\r\n' : ''}`);
      isBegun = !isWhole;
    };
    sessions.set(path, serveLarge(write, path));
    response.once('close', () => sessions.delete(path));
    raw(`event: endpoint\r\ndata: ${path}\r\n\r\n`);
  });
  const { gateway } = await gatewayBefore(server, { ...LIMITS, transport: 'http-sse' });
  return { ...gateway, ended: (path) => until(() => !sessions.has(path)) };
}

const textOf = ({ response }: Exchanged): unknown => response.result?.content?.[0]?.text;

/** Asks, and returns what answers the question. */
async function park(url: string): Promise<() => Promise<Exchanged>> {
  const { response } = await callTool(url, 'ask');
  const { requestState, inputRequests } = response.result;
  const [key = ''] = Object.keys(inputRequests);
  const inputResponses = { [key]: accept({ name: 'Ada' }) };
  return () => callTool(url, 'ask', { requestState, inputResponses });
}

describe.each([
  ['HTTP+SSE', overHttp],
  ['stdio', overStdio],
])('over %s, a message that is too large', (_transport, start) => {
  // Rule limits-10: On a shared stream, a message larger than `upstream.maxEvent` fails its own call or is dropped
  // (`upstream.dropped`). If it names no request, its session ends.
  test.each(['large-after-its-id', 'large-before-its-id'])(
    'fails its call and no other: %s',
    async (tool) => {
      const { url, log } = await start();
      const session = textOf(await callTool(url, 'who'));
      const answer = await park(url);
      const { status, response } = await callTool(url, tool);
      expect(status).toBe(200);
      expect(response.error).toMatchObject({
        code: -32603,
        message: expect.stringMatching(TOO_LARGE) as string,
        data: { reason: 'upstream_protocol_error', mayHaveActed: 'yes' },
      });
      expect(textOf(await answer())).toBe('Ada');
      expect(textOf(await callTool(url, 'who'))).toBe(session);
      expect(log.named('session.ended')).toEqual([]);
      expect(log.named('upstream.failed')[0]).toMatchObject({
        code: 'upstream_protocol_error',
        problem: expect.stringMatching(
          /\(upstream\.maxEvent is 25000 bytes, and it has \d+ bytes\)/,
        ) as string,
      });
    },
  );

  // Rule limits-10.
  test('fails its request', async () => {
    const { url } = await start();
    const answer = await park(url);
    const { response } = await send(url, 'prompts/list');
    expect(response.error.message).toMatch(TOO_LARGE);
    expect(textOf(await answer())).toBe('Ada');
  });

  // Rule limits-10.
  test('is dropped if it is a notification', async () => {
    const { url, log } = await start();
    const answer = await park(url);
    expect(textOf(await callTool(url, 'large-notification'))).toBe('done');
    expect(textOf(await answer())).toBe('Ada');
    expect(log.named('upstream.dropped')).toMatchObject([
      { kind: 'notification', method: 'notifications/message' },
    ]);
  });

  // Rule limits-10.
  test('is refused if it is a question', async () => {
    const { url, log } = await start();
    const answer = await park(url);
    const told =
      /^the message is too large for the gateway \(upstream\.maxEvent is 25000 bytes, and it has \d+ bytes\)$/;
    expect(textOf(await callTool(url, 'large-question'))).toMatch(told);
    expect(textOf(await answer())).toBe('Ada');
    expect(log.named('upstream.dropped')).toMatchObject([
      { kind: 'request', method: 'elicitation/create' },
    ]);
  });

  // Rule limits-10.
  test.each(['large-around-its-id', 'endless'])(
    'ends the session if it cannot be told whose it is: %s',
    async (tool) => {
      const { url, log, ended } = await start();
      const session = String(textOf(await callTool(url, 'who')));
      const answer = await park(url);
      for (const lost of [await callTool(url, tool), await answer()]) {
        expect(lost.response.result).toMatchObject({
          isError: true,
          _meta: { 'mrtr-gateway/reason': 'call_lost' },
        });
        expect(textOf(lost)).toContain(
          'too large for the gateway (upstream.maxEvent is 25000 bytes, and it has ',
        );
      }
      await ended(session);
      expect(textOf(await callTool(url, 'who'))).not.toBe(session);
      expect(log.named('edge.failed')).toEqual([]);
    },
  );
});
