/**
 * The contract of the transports to a legacy server: what holds over each of them, whatever its streams can do.
 * A new transport gets a row in `SERVERS`, and with it these tests and the whole matrix.
 */
import { describe, expect, test } from 'vitest';
import { accept, callTool, send, type Exchanged } from '../fixtures/clients/modern-client.ts';
import { SERVERS, since, TITLE, type RevisionShape } from '../fixtures/revisions/table.ts';
import {
  askedAndTold,
  inputRequired,
  revisionStage,
  textOf,
  type RevisionStage,
} from '../fixtures/revisions/testbed.ts';
import type { Said } from '../fixtures/revisions/tools.ts';

const NEWEST = since('2025-11-25');

const question = (message: string): Said => ({
  method: 'elicitation/create',
  params: {
    mode: 'form',
    message,
    requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
  },
});

const reasonOf = ({ response }: Exchanged): unknown =>
  response.error?.data?.reason ?? response.result?._meta?.['mrtr-gateway/reason'];

/** Only a stream that can be resumed outlives its connection. */
const resumes = ({ answers }: RevisionShape) => answers === 'resumable stream';

/** A call that waits for its client. */
async function parked({ url }: RevisionStage) {
  const args = { arguments: { rounds: [[question('Who?')]], on: 'standalone' } };
  const { inputRequests, requestState } = inputRequired(await callTool(url, 'ask', args));
  const [key = ''] = Object.keys(inputRequests);
  const inputResponses = { [key]: accept({ name: 'Ada' }) };
  return { retry: () => callTool(url, 'ask', { ...args, requestState, inputResponses }) };
}

test('every transport is in the table', () => {
  const kinds = new Set(SERVERS.map(({ transport, answers }) => `${transport}: ${answers}`));
  expect(kinds.size).toBe(NEWEST.length);
});

describe.each(NEWEST)(TITLE, (shape) => {
  const stage = revisionStage(shape);

  // Rules questions-2, sessions-3.
  test('twenty calls at once are each asked their own question, and get their own answer', async () => {
    const names = Array.from({ length: 20 }, (_, n) => `caller ${n}`);
    const asked = await Promise.all(
      names.map((name) => {
        const asking = { question: question(`Who is ${name}?`), answer: accept({ name }) };
        return askedAndTold(stage.url, 'standalone', [[asking]]);
      }),
    );
    expect(asked.map(({ requests }) => requests)).toMatchObject(
      names.map((name) => [[{ params: { message: `Who is ${name}?` } }]]),
    );
    expect(asked.map(({ told }) => told)).toEqual(
      names.map((name) => [[{ result: accept({ name }) }]]),
    );
  });

  test('a result of a megabyte arrives whole', async () => {
    const large = 'é'.repeat(512 * 1024);
    const done = await callTool(stage.url, 'echo', { arguments: { large } });
    expect(JSON.parse(textOf(done)).arguments).toEqual({ large });
  });

  // Rules failures-6, resumption-1.
  test('a call whose connections break while it waits goes on where its stream can be resumed, and is lost elsewhere', async () => {
    const { retry } = await parked(stage);
    const { log } = stage.gateway;
    const ended = log.named('call.ended').length;
    stage.server.cut();
    await (resumes(shape) ? stage.server.resumed() : log.saw('call.ended', ended + 1));
    const done = await retry();
    if (resumes(shape))
      expect(JSON.parse(textOf(done))).toEqual([[{ result: accept({ name: 'Ada' }) }]]);
    else expect(reasonOf(done)).toBe('call_lost');
    expect(stage.server.all('tools/call')).toHaveLength(1);
  });

  test('the server is used again after its connections broke', async () => {
    stage.server.cut();
    const { response } = await send(stage.url, 'tools/list');
    expect(response.result.tools.length).toBeGreaterThan(0);
    expect(textOf(await callTool(stage.url, 'echo'))).toContain('arguments');
  });
});
