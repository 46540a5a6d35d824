/** What HTTP adds in front of a server over stdio that speaks 2026-07-28 only: headers, rights, limits, tasks, and ends. */
import { describe, expect, test } from 'vitest';
import { ListeningClient } from '../../fixtures/clients/listening-client.ts';
import { accept, callTool, send } from '../../fixtures/clients/modern-client.ts';
import { allow } from '../../fixtures/gateways/rights-testbed.ts';
import { ODD, OFFICIAL, modernStdio, textOf } from '../../fixtures/gateways/modern-stdio.ts';
import { until } from '../../fixtures/process-ids.ts';

const ALICE = { headers: { authorization: 'Bearer alice' } };
const TASKS = { extensions: { 'io.modelcontextprotocol/tasks': {} }, 'com.example/own': { a: 1 } };

describe('a request', () => {
  // Rule modern-stdio-30: Requests, results and errors pass unchanged except for ids, tokens and trace context. No
  // header reaches the process.
  test('is what its client sent, with an id and a token of the gateway', async () => {
    const { url } = await modernStdio(ODD);
    const meta = { progressToken: 'mine', 'com.example/x': 1, traceparent: 'none' };
    const more = { arguments: { a: [1] }, unknown: true, requestState: 'not of the gateway' };
    const options = { ...ALICE, id: 'mine', capabilities: TASKS, meta };
    const { response } = await callTool(url, 'reflect', more, options);
    const got = JSON.parse(response.result.content[0].text);
    expect(got).toEqual({
      ...{ id: expect.any(Number), name: 'reflect', ...more },
      _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
        'io.modelcontextprotocol/clientCapabilities': TASKS,
        ...meta,
        progressToken: got.id,
      },
    });
  });

  // Rule modern-stdio-30.
  test('with an error gets it as the server sent it', async () => {
    const { url } = await modernStdio(ODD);
    const { status, response } = await send(url, 'prompts/list', {}, ALICE);
    expect(status).toBe(404);
    const error = { code: -32601, message: 'Method not found', data: { method: 'prompts/list' } };
    expect(response.error).toEqual(error);
  });

  // Rule modern-stdio-31 (MRTR, "Server Requirements"; tasks extension): `requestState` and tasks are those of the
  // server.
  test('goes on with the state that the server gave, and with no other one', async () => {
    const { url } = await modernStdio(OFFICIAL);
    const args = { arguments: { what: 'sure?' } };
    const { response } = await callTool(url, 'ask', args, ALICE);
    const { requestState, inputRequests } = response.result;
    expect(inputRequests).toMatchObject({ answer: { method: 'elicitation/create' } });
    const retry = { ...args, inputResponses: { answer: accept({ said: 'yes' }) } };
    const done = await callTool(url, 'ask', { ...retry, requestState }, ALICE);
    expect(done.response.result.content[0].text).toBe('sure?: yes, in round 1');
    const forged = await callTool(url, 'ask', { ...retry, requestState: 'made up' }, ALICE);
    expect(forged.response.error.code).toBe(-32602);
  });

  // Rule modern-stdio-31.
  test('about a task is served by the server', async () => {
    const { url } = await modernStdio(ODD);
    const options = { ...ALICE, capabilities: TASKS };
    const created = await callTool(url, 'task', {}, options);
    const { resultType, taskId } = created.response.result;
    expect(resultType).toBe('task');
    const headers = { ...ALICE.headers, 'mcp-name': taskId };
    const got = await send(url, 'tasks/get', { taskId }, { ...options, headers });
    expect(got.response.result).toMatchObject({
      status: 'completed',
      result: { resultType: 'complete' },
    });
  });

  // Rule modern-stdio-33 (streamable-http, "Server Behavior for Custom Headers"): `Mcp-Param-*` headers are compared
  // with the arguments, whatever `tools.parameterHeaders` says.
  test('is refused if a header differs from the parameter that it repeats', async () => {
    const { url } = await modernStdio(OFFICIAL);
    const call = (region: string, header: Record<string, string>) =>
      callTool(url, 'sql', { arguments: { region } }, { headers: { ...ALICE.headers, ...header } });
    const fits = await call('eu', { 'mcp-param-region': 'eu' });
    expect(fits.response.result.content[0].text).toBe('eu');
    for (const wrong of [{ 'mcp-param-region': 'us' }, {}]) {
      const { status, response } = await call('eu', wrong as Record<string, string>);
      expect([status, response.error.code]).toEqual([400, -32020]);
    }
  });

  // Rule modern-stdio-34: Rights and limits hold as for bridged routes.
  test('for what its caller may not use does not reach the server, and lists do not show it', async () => {
    const { url } = await modernStdio(ODD, { tools: allow('came', 'pid') });
    const listed = await send(url, 'tools/list', {}, ALICE);
    expect(listed.response.result.tools.map(({ name }: { name: string }) => name)).toEqual([
      'pid',
      'came',
    ]);
    const refused = await callTool(url, 'exit', {}, ALICE);
    expect(refused.response.error).toMatchObject({ code: -32602, message: 'Unknown tool: exit' });
    const came = JSON.parse(await textOf(url, 'came', {}, ALICE));
    expect(came.filter((method: string) => method === 'tools/call')).toHaveLength(1);
  });

  // Rule modern-stdio-34.
  test('beyond a limit is refused', async () => {
    const { url } = await modernStdio(ODD, {
      limits: { maxRunningCalls: 1 },
    });
    const abort = new AbortController();
    const hanging = callTool(url, 'hang', {}, { ...ALICE, signal: abort.signal }).catch(() => null);
    const pid = () => callTool(url, 'pid', {}, ALICE);
    await until(async () => (await pid()).response.error?.data.reason === 'overloaded');
    abort.abort();
    await hanging;
    await until(async () => (await pid()).response.result !== undefined);
  });

  // Rule modern-stdio-36: A call lasts at most `calls.maxDuration`, and another request `upstream.headersTimeout`.
  test('that takes too long fails, and is cancelled', async () => {
    const { url } = await modernStdio(ODD, { calls: { maxDurationMs: 300 } });
    const { response } = await callTool(url, 'hang', {}, ALICE);
    expect(response.error.data).toMatchObject({
      reason: 'upstream_timeout',
      mayHaveActed: 'unknown',
    });
    expect(await textOf(url, 'came', {}, ALICE)).toMatch(/notifications\/cancelled \d/);
  });
});

// Rule dialects-19.
test('a dialect is refused in words', async () => {
  const { url } = await modernStdio(ODD, { dialects: { 'sep-2322': '/draft' } });
  const response = await fetch(url.replace('/mcp', '/draft'), {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }),
  });
  expect(response.status).toBe(502);
  expect(await response.text()).toContain('this server speaks 2026-07-28: use /mcp');
});

describe('a gateway that drains', () => {
  // Rule modern-stdio-38: A drain ends listeners with a result, lets running calls end, and refuses others.
  test('ends listeners with a result, and lets calls finish', async () => {
    const { url, gateway, noted } = await modernStdio(OFFICIAL, {
      drain: { delayMs: 0, timeoutMs: 10_000, parkedMs: 0 },
    });
    const listener = await ListeningClient.open(
      url,
      { toolsListChanged: true },
      { ...ALICE, id: 5 },
    );
    const meeting = callTool(url, 'meet', { arguments: { name: 'Ada', of: 2 } }, ALICE);
    const hanging = new AbortController();
    const hang = callTool(
      url,
      'hang',
      { arguments: { name: 'Bea' } },
      { ...ALICE, signal: hanging.signal },
    ).catch(() => null);
    await until(async () => (await noted()).includes('began Bea'));
    const drained = gateway.drain();
    const ended = await listener.answered;
    expect(ended?.response.result._meta).toEqual({ 'io.modelcontextprotocol/subscriptionId': 5 });
    const refused = await callTool(url, 'pid', {}, ALICE);
    expect(refused.response.error.data.reason).toBe('stopping');
    hanging.abort();
    await hang;
    void meeting.catch(() => null);
    await gateway.close();
    await drained;
  });
});
