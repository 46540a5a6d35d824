/** Errors of servers of every revision, in the terms of the modern one (basic/index, "Error Codes"). */
import { describe, expect, test } from 'vitest';
import { callTool, send } from '../fixtures/clients/modern-client.ts';
import { revisionStage } from '../fixtures/revisions/testbed.ts';
import { before, SERVERS, since, TITLE } from '../fixtures/revisions/table.ts';

/** The v1 SDK puts the code before the message. */
const message = (code: number, text: string) => `MCP error ${code}: ${text}`;

describe.each(SERVERS)(TITLE, (shape) => {
  const stage = revisionStage(shape);

  test('a resource that does not exist is an invalid parameter, and its URI is named', async () => {
    const uri = 'test://missing';
    const { status, response } = await send(stage.url, 'resources/read', { uri });
    expect(status).toBe(200);
    expect(response.error).toEqual({
      code: -32602,
      message: message(-32002, 'Resource not found'),
      data: { uri },
    });
  });

  test('a tool that does not exist is an invalid parameter', async () => {
    const { status, response } = await callTool(stage.url, 'missing');
    expect(status).toBe(200);
    expect(response.error).toEqual({
      code: -32602,
      message: message(-32602, 'Unknown tool: missing'),
    });
  });

  test.each([
    { kind: 'invalid parameters', code: -32602, becomes: -32602 },
    { kind: 'an internal error', code: -32603, becomes: -32603 },
    { kind: 'an error of the application', code: -31999, becomes: -31999 },
    { kind: 'an error outside of JSON-RPC', code: 401, becomes: 401 },
  ])('$kind, $code, keeps its code and its data', async ({ code, becomes }) => {
    const args = { arguments: { code, message: 'No', data: { why: 'because' } } };
    const { status, response } = await callTool(stage.url, 'refuse', args);
    expect(status).toBe(200);
    const error = { code: becomes, message: message(code, 'No'), data: { why: 'because' } };
    expect(response.error).toEqual(error);
  });

  test.each([
    { kind: 'a connection that was closed', code: -32000, becomes: -32603 },
    { kind: 'a time-out', code: -32001, becomes: -32603 },
    { kind: 'a missing resource that no client asked for', code: -32002, becomes: -32603 },
    { kind: 'a code that means something else now', code: -32021, becomes: -32603 },
    { kind: 'an invalid request', code: -32600, becomes: -32603 },
    { kind: 'a method that a tool lacks', code: -32601, becomes: -32602 },
  ])('$kind, $code, becomes $becomes and stands in the data', async ({ code, becomes }) => {
    const args = { arguments: { code, message: 'No', data: { why: 'because' } } };
    const { status, response } = await callTool(stage.url, 'refuse', args);
    expect(status).toBe(200);
    const upstream = { code, message: message(code, 'No'), data: { why: 'because' } };
    expect(response.error).toEqual({
      code: becomes,
      message: upstream.message,
      data: { upstream },
    });
  });

  // Rule validation-14.
  test.each(['ping', 'logging/setLevel', 'resources/subscribe', 'initialize', 'com.example/any'])(
    '%s is no method of the modern revision, whatever the server has',
    async (method) => {
      const { status, response } = await send(stage.url, method);
      expect(status).toBe(404);
      expect(response.error.code).toBe(-32601);
      expect(stage.server.received).toEqual([]);
    },
  );
});

describe.each(before('2025-03-26'))(TITLE, (shape) => {
  const stage = revisionStage(shape);
  // Rule validation-15.
  test('completion is no method of a server that could not say it had it', async () => {
    const ref = { type: 'ref/prompt', name: 'one' };
    const params = { ref, argument: { name: 'who', value: 'A' } };
    const { status, response } = await send(stage.url, 'completion/complete', params);
    expect(status).toBe(404);
    expect(response.error.code).toBe(-32601);
  });
});

describe.each(since('2025-03-26'))(TITLE, (shape) => {
  const stage = revisionStage(shape);
  const argument = { name: 'id', value: 'A' };

  test.each([
    { of: 'a prompt', ref: { type: 'ref/prompt', name: 'one' } },
    { of: 'a template', ref: { type: 'ref/resource', uri: 'test://one/{id}' } },
  ])('arguments of $of are completed', async ({ ref }) => {
    const { response } = await send(stage.url, 'completion/complete', { ref, argument });
    const { completion } = response.result;
    expect(completion).toMatchObject({ total: 1, hasMore: false });
    expect(JSON.parse(completion.values[0])).toEqual({ ref, argument });
  });

  // Rule requests-4 (completion, "Requesting Completions"): The `context` of a completion goes only to servers of
  // `2025-06-18` and later.
  test('the context of a completion goes to servers that know it', async () => {
    const ref = { type: 'ref/prompt', name: 'one' };
    const context = { arguments: { who: 'Ada' } };
    const { response } = await send(stage.url, 'completion/complete', { ref, argument, context });
    const reached = JSON.parse(response.result.completion.values[0]);
    expect(reached).toEqual({
      ref,
      argument,
      ...(shape.revision >= '2025-06-18' ? { context } : {}),
    });
  });
});
