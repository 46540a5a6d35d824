/** What `npm run clients` makes of the messages between a client and the gateway. */
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../src/protocol/json.ts';
import { nextTurn, TEXT } from '../../../sweep/clients/model.ts';
import { readBehaviour } from '../../../sweep/clients/reading.ts';
import type { Recorded } from '../../../sweep/clients/recorder.ts';

const says = (message: JsonObject, verb = 'POST'): Recorded => ({ from: 'client', verb, message });
const gets = (message: JsonObject, status = 200): Recorded => ({
  from: 'gateway',
  status,
  message,
});

function envelope(capabilities: JsonObject): JsonObject {
  return {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'modern', version: '2' },
    'io.modelcontextprotocol/clientCapabilities': capabilities,
  };
}
const text = (said: string) => ({ content: [{ type: 'text', text: said }] });
const ask = (id: number, params: JsonObject = {}) =>
  says({ id, method: 'tools/call', params: { name: 'ask', ...params } });

const QUESTION = { method: 'elicitation/create', params: { message: 'What is your name?' } };
const INITIALIZED = [
  says({
    id: 0,
    method: 'initialize',
    params: {
      protocolVersion: '2025-11-25',
      clientInfo: { name: 'legacy', version: '1' },
      capabilities: { elicitation: {} },
    },
  }),
  gets({ id: 0, result: { protocolVersion: '2025-11-25' } }),
];

describe('how a client begins', () => {
  test('is the revision that a modern client names in its first request', () => {
    const discover = says({ id: 'a', method: 'server/discover', params: { _meta: envelope({}) } });
    expect(readBehaviour([discover])).toMatchObject({
      openings: [{ method: 'server/discover', revision: '2026-07-28' }],
      client: { name: 'modern', version: '2' },
      session: 'none',
    });
  });

  test('is each thing that it tried, if it was refused', () => {
    const discover = says({ id: 'a', method: 'server/discover', params: { _meta: envelope({}) } });
    const refused = gets({ id: 'a', error: { code: -32601, message: 'no' } });
    const { openings } = readBehaviour([discover, refused, discover, refused, ...INITIALIZED]);
    expect(openings.map(({ method }) => method)).toEqual(['server/discover', 'initialize']);
  });

  test('leaves the refusal, if it got no list of tools', () => {
    const refused = gets({ id: 0, error: { code: -32022, message: 'Unsupported' } }, 400);
    expect(readBehaviour([INITIALIZED[0]!, refused])).toMatchObject({
      tools: null,
      refusal: 'Unsupported',
      session: 'none',
    });
  });

  test('is told of the client that came last, since some try a server with another one first', () => {
    const trial = { ...INITIALIZED[0]!.message!, params: { clientInfo: { name: 'trial' } } };
    const { client, declares } = readBehaviour([says(trial), ...INITIALIZED]);
    expect(client?.name).toBe('legacy');
    expect(declares).toEqual(['elicitation']);
  });
});

test('a session is ended if the client sends a DELETE', () => {
  expect(readBehaviour(INITIALIZED).session).toBe('left open');
  const end: Recorded = { from: 'client', verb: 'DELETE', message: null };
  expect(readBehaviour([...INITIALIZED, end]).session).toBe('ended');
});

test('a call is right if the client got what its arguments say', () => {
  const call = says({ id: 1, method: 'tools/call', params: { name: 'echo' } });
  const echo = (result: JsonObject) => readBehaviour([call, gets({ id: 1, result })]).echo;
  expect(echo(text(`echo: ${TEXT}`))).toEqual({ kind: 'right' });
  expect(echo(text('echo: other'))).toEqual({ kind: 'wrong', text: 'echo: other' });
  expect(echo({ ...text('no'), isError: true })).toEqual({ kind: 'error', text: 'no' });
  expect(readBehaviour([call]).echo).toEqual({ kind: 'no answer' });
  expect(readBehaviour([]).echo).toEqual({ kind: 'never called' });
});

describe('a question', () => {
  const asked = gets({ id: 1, result: { resultType: 'input_required', inputRequests: {} } });
  const retry = (answer: JsonObject) => ask(2, { inputResponses: { one: answer } });

  test('is answered by a modern client with a retry', () => {
    const answer = retry({ action: 'accept', content: { name: 'Ada' } });
    const done = gets({ id: 2, result: text('accept: Ada') });
    expect(readBehaviour([ask(1), asked, answer, done]).question).toEqual({
      kind: 'answered',
      action: 'accept',
      result: { kind: 'right' },
    });
  });

  test('is answered by a legacy client with a response', () => {
    const wire = [
      ask(0),
      // The ids of the server are its own.
      gets({ id: 0, ...QUESTION }),
      says({ id: 0, result: { action: 'decline' } }),
      gets({ id: 0, result: text('decline: nothing') }),
    ];
    expect(readBehaviour(wire).question).toEqual({
      kind: 'answered',
      action: 'decline',
      result: { kind: 'right' },
    });
  });

  test('shows nothing if the client answers with an error, or not at all', () => {
    const error = says({ id: 7, error: { code: -32601, message: 'Method not found' } });
    const wire = [ask(1), gets({ id: 7, ...QUESTION })];
    expect(readBehaviour([...wire, error]).question).toEqual({
      kind: 'shown nothing',
      text: 'Method not found',
    });
    expect(readBehaviour(wire).question).toEqual({ kind: 'shown nothing', text: '' });
    expect(readBehaviour([ask(1), asked]).question).toMatchObject({ kind: 'shown nothing' });
  });

  test('is not declared if the client is told so', () => {
    const message = 'The client must declare elicitation';
    const refused = gets({ id: 1, error: { code: -32021, message } }, 400);
    expect(readBehaviour([ask(1), refused]).question).toEqual({
      kind: 'not declared',
      text: message,
    });
  });

  test('that the tool never got to is a failed call', () => {
    const failed = gets({ id: 1, error: { code: -32603, message: 'broken' } });
    expect(readBehaviour([ask(1), failed]).question).toEqual({ kind: 'failed', text: 'broken' });
  });
});

test('the scripted model calls each tool once, whatever a client puts in front of its name', () => {
  const offered = ['Bash', 'mcp__gate__echo', 'mcp__gate__ask'];
  expect(nextTurn({ offered, called: [] })).toEqual({
    call: 'mcp__gate__echo',
    arguments: { text: TEXT },
  });
  expect(nextTurn({ offered, called: ['mcp__gate__echo'] })).toMatchObject({
    call: 'mcp__gate__ask',
  });
  expect(nextTurn({ offered, called: ['mcp__gate__echo', 'mcp__gate__ask'] })).toEqual({
    say: 'Done.',
  });
});
