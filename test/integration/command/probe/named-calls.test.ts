/** A probe that calls the tool that the operator named. */
import { describe, expect, test } from 'vitest';
import { askName } from '../../../fixtures/servers/legacy-server.ts';
import type { Tool } from '../../../fixtures/servers/legacy/tools.ts';
import { startEverything } from '../../../fixtures/processes.ts';
import { json, legacyServer } from '../../../fixtures/servers/scripted-server.ts';
import { kept, legacy, probing, report } from '../../../fixtures/probing.ts';

describe('a call that the operator named', () => {
  const call = ['--call', 'ask'];

  test('is left at its question and resumed, and the advice says how long its answer took', async () => {
    const server = await legacy({ tools: { ask: askName }, keepsEvents: true });
    const { realCall, advice } = await report(server.url, ...call);
    expect(realCall).toMatchObject({ tool: 'ask', outcome: 'resumed' });
    expect(JSON.stringify(advice.config)).toContain('when-resumable');
    expect(server.sessions).toBe(0);
  });

  test('is not mistaken for what the server asks beside it', async () => {
    const ask: Tool = async (asking) => {
      const { roots } = await asking.server.listRoots();
      return roots.length === 0 ? askName(asking) : 'nobody asked';
    };
    const server = await legacy({ tools: { ask }, keepsEvents: true });
    const { realCall } = await report(server.url, ...call);
    expect(realCall).toMatchObject({ tool: 'ask', outcome: 'resumed' });
  });

  test('verifies nothing where it asks nothing', async () => {
    const server = await legacy({ tools: { ask: async () => 'nobody' }, keepsEvents: true });
    expect((await report(server.url, ...call)).realCall?.outcome).toBe('not-asked');
  });

  test.each([
    ['aks', 'did you mean "ask"?'],
    ['nosuch', 'without --call, the probe lists its tools'],
  ])('is not made if the server does not list its tool (%s)', async (tool, wayOut) => {
    const server = await legacy({ tools: { ask: askName }, keepsEvents: true });
    expect(await probing(server.url, '--call', tool)).toEqual({
      code: 64,
      out: '',
      err: `mrtr-gateway: --call: the server has no tool "${tool}"; ${wayOut}\n`,
    });
    expect(server.methods()).not.toContain('tools/call');
    expect(server.sessions).toBe(0);
  });

  test('is made if the list of tools cannot be read in full', async () => {
    const server = kept(
      await legacyServer(({ body }, response) => {
        const error = { code: -32603, message: 'no \u001b[2Jlist' };
        json(response, 200, { jsonrpc: '2.0', id: body.id, error });
      }),
    );
    expect((await report(server.url, ...call)).realCall).toEqual({
      tool: 'ask',
      outcome: 'failed',
      answerMs: null,
      problem: 'no [2Jlist',
    });
  });

  test('that the tool ends with an error is not taken for one that asked nothing', async () => {
    const text = `Invalid arguments\u001b[2J${' for ask'.repeat(40)}`;
    const ask = async () => ({ isError: true, content: [{ type: 'text', text }] });
    const server = await legacy({ tools: { ask }, keepsEvents: true });
    const { realCall, advice } = await report(server.url, ...call);
    expect(realCall).toMatchObject({ outcome: 'tool-error', answerMs: null });
    expect(realCall?.problem).toMatch(/^Invalid arguments \[2J for ask.*…$/);
    expect(realCall?.problem).toHaveLength(160);
    expect(advice.notes.join(' ')).toContain('Invalid arguments');
  });

  test('shows that the result of server-everything is late on a resumed stream', async () => {
    const server = kept(await startEverything('streamableHttp'));
    const url = `${server.origin}/mcp`;
    const { realCall, advice } = await report(url, '--call', 'trigger-elicitation-request');
    expect(realCall).toMatchObject({ outcome: 'late', answerMs: null });
    expect(JSON.stringify(advice.config)).not.toContain('when-resumable');
  });
});
