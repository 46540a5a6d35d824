/** `upstream.roots: caller`: when a modern client is asked for its roots, and what becomes of its answer. */
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { callTool, send, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import { aboutTask, callForTask, untilTask } from '../../../fixtures/clients/task-client.ts';
import type { GatewayOverrides } from '../../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../../fixtures/gateways/test-gateway.ts';

const SERVER = fileURLToPath(
  new URL('../../../fixtures/servers/folders-server.js', import.meta.url),
);
const ROOTS = { roots: [{ uri: 'file:///home/ada' }] };

/** A server that takes the roots of its client for its folders, in place of `/srv`. */
function before(roots: 'none' | 'caller', overrides?: GatewayOverrides) {
  return testGateway({ command: process.execPath, args: [SERVER, '/srv'], roots }, overrides);
}

const answering = (asked: Exchanged, answer: object) => ({
  requestState: asked.response.result.requestState,
  inputResponses: { 'roots-1': answer },
});
const isAsked = ({ response }: Exchanged) => response.result?.resultType === 'input_required';
const foldersOf = ({ response }: Exchanged) =>
  (JSON.parse(response.result.content[0].text) as { folders: string[] }).folders;

// Rule roots-4.
test('the first call of a session carries the question, and the later ones do not', async () => {
  const { url, log } = await before('caller');
  await send(url, 'tools/list');
  const asked = await callTool(url, 'folders');
  expect(asked.response.result.inputRequests).toEqual({
    'roots-1': { method: 'roots/list', params: {} },
  });
  const told = await callTool(url, 'folders', answering(asked, ROOTS));
  const { folders, declared } = JSON.parse(told.response.result.content[0].text);
  expect(folders).toEqual(['file:///home/ada']);
  expect(declared.roots).toEqual({ listChanged: true });
  expect(foldersOf(await callTool(url, 'folders', { arguments: { ask: true } }))).toEqual(folders);
  expect(log.named('process.started')).toHaveLength(2);
});

// Rule roots-4.
test('with `none` no call asks before the server does', async () => {
  const { url } = await before('none');
  await send(url, 'tools/list');
  expect(foldersOf(await callTool(url, 'folders'))).toEqual(['/srv']);
});

// Rule roots-4.
test('a client that declares no roots is not asked for them', async () => {
  const { url } = await before('caller');
  const told = await callTool(url, 'folders', {}, { capabilities: { elicitation: {} } });
  expect(foldersOf(told)).toEqual(['/srv']);
});

// Rule roots-4.
test('in a session that all callers share, no caller is asked', async () => {
  const sessions = { scope: 'shared', concurrency: 'together' } as const;
  const { url } = await before('caller', { sessions });
  await send(url, 'tools/list');
  expect(foldersOf(await callTool(url, 'folders'))).toEqual(['/srv']);
});

// Rule roots-4.
test('a caller without a home is asked in each call, whose session learns its roots', async () => {
  const { url } = await before('caller', { sessions: { scope: 'call' } });
  for (const uri of ['file:///one', 'file:///two']) {
    const asked = await callTool(url, 'folders');
    const told = await callTool(url, 'folders', answering(asked, { roots: [{ uri }] }));
    expect(foldersOf(told)).toEqual([uri]);
  }
});

// Rule roots-2.
test('an answer without roots leaves the server with its own folders', async () => {
  const { url } = await before('caller');
  const asked = await callTool(url, 'folders');
  const told = await callTool(url, 'folders', answering(asked, { roots: [] }));
  expect(foldersOf(told)).toEqual(['/srv']);
  expect(foldersOf(await callTool(url, 'folders'))).toEqual(['/srv']);
});

// Rule roots-2.
test.each([
  { roots: [{ uri: 'https://x' }] },
  { action: 'decline' },
  { code: -32603, message: 'no' },
])('%j is no answer: it is refused, and another one can be given', async (wrong) => {
  const { url } = await before('caller');
  const asked = await callTool(url, 'folders');
  const refused = await callTool(url, 'folders', answering(asked, wrong));
  expect(refused.response.error.code).toBe(-32602);
  const told = await callTool(url, 'folders', answering(asked, ROOTS));
  expect(foldersOf(told)).toEqual(['file:///home/ada']);
});

// Rule roots-2.
test('a retry without an answer is asked again', async () => {
  const { url } = await before('caller');
  const asked = await callTool(url, 'folders');
  const { requestState } = asked.response.result;
  expect(isAsked(await callTool(url, 'folders', { requestState }))).toBe(true);
  const told = await callTool(url, 'folders', answering(asked, ROOTS));
  expect(foldersOf(told)).toEqual(['file:///home/ada']);
});

// Rule roots-6: The first answer counts for the session, and changed roots count from the next session on.
test('of calls that begin together each one asks, and the first answer counts', async () => {
  const { url } = await before('caller');
  const [one, other] = await Promise.all([callTool(url, 'folders'), callTool(url, 'folders')]);
  const first = await callTool(url, 'folders', answering(one, ROOTS));
  const changed = answering(other, { roots: [{ uri: 'file:///tmp' }] });
  const second = await callTool(url, 'folders', changed);
  expect([first, second].map(foldersOf)).toEqual([['file:///home/ada'], ['file:///home/ada']]);
});

// Rule roots-6.
test('a call with the same answer twice is made once', async () => {
  const { url } = await before('caller');
  const asked = await callTool(url, 'folders');
  const retry = () => callTool(url, 'folders', answering(asked, ROOTS));
  const [one, other] = await Promise.all([retry(), retry()]);
  expect(other.response.result).toEqual(one.response.result);
  expect((await retry()).response.result).toEqual(one.response.result);
});

// Rule roots-6.
test('windows that `sessions.key` tells apart have folders of their own', async () => {
  const { url } = await before('caller', { sessions: { key: { header: 'X-Window' } } });
  const inWindow = async (window: string, uri: string) => {
    const options = { headers: { 'x-window': window } };
    const asked = await callTool(url, 'folders', {}, options);
    const answer = answering(asked, { roots: [{ uri }] });
    return foldersOf(await callTool(url, 'folders', answer, options));
  };
  expect(await inWindow('one', 'file:///one')).toEqual(['file:///one']);
  expect(await inWindow('two', 'file:///two')).toEqual(['file:///two']);
});

// Rule roots-7: A call that waits for roots holds nothing at the server, and can become a task.
test('a call that waits for roots becomes a task, and is made when its client has answered', async () => {
  const { url } = await before('caller', { tasks: { promote: 'interactive' } });
  const { response } = await callForTask(url, 'folders');
  expect(response.result.resultType).toBe('task');
  const { taskId } = response.result;
  const { inputRequests } = await untilTask(url, taskId, ['input_required']);
  expect(inputRequests).toEqual({ 'roots-1': { method: 'roots/list', params: {} } });
  await aboutTask(url, 'update', taskId, { inputResponses: { 'roots-1': ROOTS } });
  const { result } = await untilTask(url, taskId, ['completed']);
  expect(JSON.parse(result.content[0].text)).toMatchObject({ folders: ['file:///home/ada'] });
});

// Rule roots-7.
test('a process that ends while the client is asked takes no call with it', async () => {
  const { url, log } = await before('caller', { sessions: { maxPerPrincipal: 1 } });
  const asked = await callTool(url, 'folders');
  process.kill(Number(log.named('process.started').at(-1)?.['pid']), 'SIGKILL');
  await log.saw('process.crashed');
  const told = await callTool(url, 'folders', answering(asked, ROOTS));
  expect(foldersOf(told)).toEqual(['file:///home/ada']);
});
