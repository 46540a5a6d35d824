/** Responses whose JSON is no reply, too large, or of a shape that clients do not know. */
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { callTool, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import { eventStream, json, type Answer } from '../../../fixtures/servers/scripted-server.ts';
import { expectUnharmed, ground } from '../../../fixtures/gateways/survival-testbed.ts';
import { JSON_TYPE } from '../../../fixtures/failures/wrong-answers.ts';
import {
  expectDiscreet,
  expectFailure,
  LIMITS,
  SECRET,
} from '../../../fixtures/failures/hostile-answers.ts';

function messageOf({ response }: Exchanged): string {
  return response.error?.message ?? response.result?.content?.[0]?.text;
}

describe('JSON', () => {
  const message = (more: object) => (id: unknown) =>
    JSON.stringify({ jsonrpc: '2.0', id, ...more });
  const deep = `${'['.repeat(5_000)}${']'.repeat(5_000)}`;
  // Rules failures-5, limits-3.
  test.each<[string, (id: unknown) => string]>([
    ['that breaks off', () => `{"jsonrpc":"2.0","${SECRET}`],
    ['with more behind it', (id) => `${message({ result: {} })(id)}${SECRET}`],
    ['null', () => 'null'],
    ['a string', () => `"${SECRET}"`],
    ['no message at all', () => '[]'],
    ['a message of another protocol', (id) => JSON.stringify({ id, result: {}, error: SECRET })],
    ['of JSON-RPC 1.0', (id) => JSON.stringify({ jsonrpc: '1.0', id, result: { a: SECRET } })],
    ['with a result that is text', message({ result: SECRET })],
    ['with a result that is a list', message({ result: [SECRET] })],
    ['with no result', message({ result: null })],
    ['with an error that is text', message({ error: SECRET })],
    ['with the id as text', (id) => message({ result: {} })(String(id))],
    [
      'with another id',
      () => message({ result: { content: [{ type: 'text', text: SECRET }] } })(999),
    ],
    ['with an id that is an object', () => message({ result: {} })({})],
    ['deeper than a stack', (id) => `{"jsonrpc":"2.0","id":${String(id)},"result":{"a":${deep}}}`],
    ['larger than the limit', message({ result: { a: 'x'.repeat(20_000) } })],
  ])('%s is no reply', async (_title, text) => {
    const asJson: Answer = ({ body }, response) =>
      void response.writeHead(200, JSON_TYPE).end(text(body.id));
    await expectFailure(asJson, 'upstream_protocol_error');
    const asEvent: Answer = ({ body }, response) => {
      const stream = eventStream(response);
      stream.raw(`data: ${text(body.id)}\n\n`);
      stream.end();
    };
    await expectFailure(asEvent, 'upstream_protocol_error');
  });

  // Rule limits-3.
  test('larger than a limit is no reply, and the client is told which limit it is', async () => {
    const large = { result: { content: [{ type: 'text', text: 'x'.repeat(20_000) }] } };
    const asJson: Answer = ({ body }, response) =>
      void response.writeHead(200, JSON_TYPE).end(message(large)(body.id));
    const asEvent: Answer = ({ body }, response) => {
      eventStream(response).raw(`data: ${message(large)(body.id)}\n\n`);
    };
    const byBody = await expectFailure(asJson, 'upstream_protocol_error');
    expect(messageOf(byBody)).toContain(
      'too large for the gateway (upstream.maxEvent is 20000 bytes, and it has more)',
    );
    const byEvent = await expectFailure(asEvent, 'upstream_protocol_error');
    expect(messageOf(byEvent)).toContain(
      'too large for the gateway (upstream.maxEvent is 20000 bytes, and it has more)',
    );
  });

  // Rule limits-3: Replies larger than `upstream.maxEvent` (32 MiB), deeper than 1000 levels, or with more than
  // 131,072 objects and arrays are refused. An event has at most 100,000 lines.
  test.each<[string, (push: (text: string) => void) => void]>([
    ['without end', (push) => push('x'.repeat(10_000))],
    ['without end, in single bytes', (push) => push(' ')],
  ])('%s is cut', async (_title, more) => {
    const answering = Promise.withResolvers<ServerResponse>();
    const script: Answer = (_received, response) => {
      response.writeHead(200, JSON_TYPE);
      endlessly(response, more);
      answering.resolve(response);
    };
    await expectFailure(script, 'upstream_protocol_error', { calls: { maxDurationMs: 200_000 } });
    expect((await answering.promise).destroyed).toBe(true);
  });

  // Rule responses-6.
  test.each<[string, object]>([
    ['content that is no list', { content: SECRET }],
    ['no content', {}],
    ['content that is null', { content: null }],
    ['members of another revision', { content: [], resultType: 'input_required' }],
    [
      'a question that it may not ask this way',
      {
        content: [],
        resultType: 'input_required',
        inputRequests: { a: { method: 'roots/list' } },
        requestState: SECRET,
      },
    ],
  ])('with %s is given a shape that the client knows', async (_title, result) => {
    const field = await ground(LIMITS, ({ body }, response) =>
      json(response, 200, { jsonrpc: '2.0', id: body.id, result }),
    );
    const exchanged = await callTool(field.url, 'hostile');
    expect(exchanged.response.result).toMatchObject({ resultType: 'complete', content: [] });
    expectDiscreet(field, exchanged);
    await expectUnharmed(field);
  });

  // Rule errors-1 (basic, "Error Responses"): A code of the wrong type becomes -32603, and a message of the wrong
  // type "Unknown error".
  test.each<[string, object, object]>([
    ['nothing', {}, { code: -32603, message: 'Unknown error' }],
    ['a code that is text', { code: 'E_BAD', message: 'm' }, { code: -32603, message: 'm' }],
    ['a code with a fraction', { code: 1.5, message: 'm' }, { code: -32603, message: 'm' }],
    [
      'a message that is a list',
      { code: 7, message: ['m'] },
      { code: 7, message: 'Unknown error' },
    ],
  ])('with an error that says %s is a whole error for the client', async (_title, error, seen) => {
    const field = await ground(LIMITS, ({ body }, response) =>
      json(response, 200, { jsonrpc: '2.0', id: body.id, error }),
    );
    const { response } = await callTool(field.url, 'hostile');
    expect(response.error).toEqual(seen);
    await expectUnharmed(field);
  });
});

/** Goes on until the other side has had enough. */
function endlessly(response: ServerResponse, more: (push: (text: string) => void) => void): void {
  if (response.destroyed) return;
  more((text) => response.write(text));
  const again = () => endlessly(response, more);
  if (response.writableNeedDrain) response.once('drain', again);
  else setImmediate(again);
}
