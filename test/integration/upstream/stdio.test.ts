/** Servers over stdio that end, hang, and write what is no message: what a client sees, and what is left of them. */
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { systemClock, type Clock } from '../../../src/lib/clock.ts';
import { ListeningClient } from '../../fixtures/clients/listening-client.ts';
import { accept, callTool, send } from '../../fixtures/clients/modern-client.ts';
import { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import {
  startTestGateway,
  type GatewayOverrides,
  type StdioServer,
  type TestGateway,
} from '../../fixtures/gateways/gateway.ts';
import { isRunning, pidFile, until } from '../../fixtures/process-ids.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const SERVER = fileURLToPath(new URL('../../fixtures/servers/stdio-server.js', import.meta.url));
const ALICE = { headers: { authorization: 'Bearer alice' } };
const BOB = { headers: { authorization: 'Bearer bob' } };

afterEach(() => vi.unstubAllEnvs());

/** Takes away the variables of the network that this machine has. */
function withoutNetworkVariables(): void {
  for (const name of Object.keys(process.env)) {
    if (/proxy|^NODE_EXTRA_CA_CERTS$|^npm_config_registry$/i.test(name))
      vi.stubEnv(name, undefined);
  }
}

function server(manner: string, env = {}, options: StdioServer['options'] = {}): StdioServer {
  return { command: process.execPath, args: [SERVER, manner], env, options };
}

async function gatewayFor(
  stdio: StdioServer,
  overrides: GatewayOverrides = {},
): Promise<TestGateway> {
  const gateway = await startTestGateway(stdio, overrides);
  stopAfterTest(() => gateway.close());
  return gateway;
}

async function textOf(url: string, tool: string, options = {}, args = {}): Promise<string> {
  const { response } = await callTool(url, tool, { arguments: args }, options);
  return response.result.content[0].text;
}

/** How a client is told that a call has failed. */
const failed = (reason: string, mayHaveActed: string) => ({
  isError: true,
  _meta: { 'mrtr-gateway/reason': reason, 'mrtr-gateway/mayHaveActed': mayHaveActed },
});

describe('the processes of a gateway', () => {
  // Rule stdio-1: All requests and subscriptions of a caller with a home use one process, which starts with the first
  // of them.
  test('are one for each caller, who finds the same in each request', async () => {
    const gateway = await gatewayFor(server('plain'));
    await send(gateway.url, 'server/discover');
    const listener = await ListeningClient.open(gateway.url, { toolsListChanged: true });
    await send(gateway.url, 'tools/list');
    const own = [await textOf(gateway.url, 'pid'), await textOf(gateway.url, 'pid')];
    await callTool(gateway.url, 'announce');
    await listener.until(2);
    await listener.leave();
    const others = [
      await textOf(gateway.url, 'pid', ALICE),
      await textOf(gateway.url, 'pid', BOB),
      await textOf(gateway.url, 'pid', ALICE),
    ];
    expect(own[0]).toBe(own[1]);
    expect(others[0]).toBe(others[2]);
    expect(new Set([...own, ...others]).size).toBe(3);
    expect(listener.heard).toContain('tools/list_changed');
    // The first is the greeting of the start.
    expect(gateway.log.named('process.started')).toHaveLength(4);
  });

  // Rule stdio-2: A process gets `upstream.env` and a few variables of the gateway. Its standard error is logged, up
  // to a limit, without values of `upstream.env`.
  test('get no variable of the gateway but the named ones, and no secret is logged', async () => {
    process.env['OF_THE_GATEWAY'] = 'not for servers';
    const gateway = await gatewayFor(server('plain', { SECRET: 'the-secret-value' }));
    const env = JSON.parse(await textOf(gateway.url, 'env'));
    delete process.env['OF_THE_GATEWAY'];
    expect(env).toMatchObject({ SECRET: 'the-secret-value', PATH: process.env['PATH'] });
    expect(env).not.toHaveProperty('OF_THE_GATEWAY');
    await callTool(gateway.url, 'noise');
    const lines = gateway.log.named('process.wrote');
    expect(lines.length).toBeGreaterThan(10);
    expect(lines.length).toBeLessThanOrEqual(50);
    expect(lines[0]).toMatchObject({ stream: 'stderr', line: 'line 0 ***' });
    expect(lines[0]).not.toHaveProperty('dropped');
    expect(JSON.stringify(gateway.log.lines)).not.toContain('the-secret-value');
  });

  test('read texts with every kind of line break', async () => {
    const gateway = await gatewayFor(server('plain'));
    const said = 'a\nb\r\nc\u0085d\u2028e\u2029f';
    expect(await textOf(gateway.url, 'echo', {}, { said })).toBe(said);
  });

  // Rule stdio-3: Beyond `sessions.max` the longest idle process ends. A process that is a day old ends once
  // it serves no request.
  test('are so many at most: the one that was idle for the longest time ends', async () => {
    const pids = await pidFile();
    const gateway = await gatewayFor(server('plain', { PIDS: pids.path }), {
      admin: true,
      sessions: { max: 2 },
    });
    const first = await textOf(gateway.url, 'pid', ALICE);
    await textOf(gateway.url, 'pid', BOB);
    await textOf(gateway.url, 'pid', { headers: { authorization: 'Bearer carol' } });
    expect(isRunning(Number(first))).toBe(false);
    expect((await pids.all()).filter(isRunning)).toHaveLength(2);
    const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
    expect(metrics).toContain('mrtr_gateway_limit{limit="sessions:mcp"} 2\n');
  });

  const SHORT_DAYS: Clock = {
    ...systemClock,
    setTimer: (afterMs, callback) =>
      systemClock.setTimer(afterMs === 86_400_000 ? 1_500 : afterMs, callback),
  };

  // Rule stdio-3.
  test('end when they are old and serve no request', async () => {
    const gateway = await gatewayFor(server('plain'), { clock: SHORT_DAYS });
    const asked = await callTool(gateway.url, 'ask');
    const pid = await textOf(gateway.url, 'pid');
    await new Promise((resolve) => setTimeout(resolve, 1_600));
    expect(await textOf(gateway.url, 'pid')).toBe(pid);
    const [key] = Object.keys(asked.response.result.inputRequests);
    const { requestState } = asked.response.result;
    const inputResponses = { [String(key)]: accept({ name: 'Ada' }) };
    const { response } = await callTool(gateway.url, 'ask', { requestState, inputResponses });
    expect(response.result.content[0].text).toBe('Ada');
    await until(() => !isRunning(Number(pid)));
    expect(await textOf(gateway.url, 'pid')).not.toBe(pid);
  });
});

describe('a process that ends in the middle of a call', () => {
  // Rule stdio-4: If a process ends, its calls fail with `data.mayHaveActed`. The next request starts another one,
  // after growing delays.
  test('ends the call with a clear error, and the next call has another one', async () => {
    const gateway = await gatewayFor(server('plain'));
    const before = await textOf(gateway.url, 'pid');
    const { response } = await callTool(gateway.url, 'exit');
    expect(response.result).toMatchObject(failed('call_lost', 'unknown'));
    expect(gateway.log.named('process.crashed')).toMatchObject([
      { problem: 'the process ended with exit code 7' },
    ]);
    const after = await textOf(gateway.url, 'pid');
    expect(after).not.toBe(before);
  });

  // Rule stdio-4.
  test('or only closes its standard output, ends the call, and the next call has another process', async () => {
    const gateway = await gatewayFor(server('plain'));
    const before = await textOf(gateway.url, 'pid');
    const { response } = await callTool(gateway.url, 'close-output');
    expect(response.result).toMatchObject(failed('call_lost', 'unknown'));
    await gateway.log.saw('process.crashed');
    expect(gateway.log.named('process.crashed')).toMatchObject([
      { problem: 'the process closed its standard output' },
    ]);
    expect(isRunning(Number(before))).toBe(false);
    expect(await textOf(gateway.url, 'pid')).toMatch(/^\d+$/);
  });

  // Rule stdio-4.
  test('ends the parked calls of its session: a retry gets an error at once', async () => {
    const gateway = await gatewayFor(server('plain'));
    const asked = await callTool(gateway.url, 'ask');
    process.kill(Number(await textOf(gateway.url, 'pid')), 'SIGKILL');
    await gateway.log.saw('process.crashed');
    const { requestState } = asked.response.result;
    const [key] = Object.keys(asked.response.result.inputRequests);
    const inputResponses = { [String(key)]: accept({ name: 'Ada' }) };
    const { response } = await callTool(gateway.url, 'ask', { requestState, inputResponses });
    expect(response.result).toMatchObject(failed('call_lost', 'yes'));
    expect(await textOf(gateway.url, 'pid')).toMatch(/^\d+$/);
  });

  // Rule stdio-4.
  test('again and again is started with growing delays', async () => {
    const pids = await pidFile();
    const gateway = await gatewayFor(server('plain', { PIDS: pids.path }));
    for (let call = 0; call < 10; call += 1) await callTool(gateway.url, 'exit');
    // The greeting, the first one, and the one that may start at once.
    expect((await pids.all()).length).toBeLessThanOrEqual(4);
  });
});

describe('a process that cannot serve', () => {
  // Rule stdio-4.
  test('and is not there, keeps the gateway from starting, with the reason', async () => {
    await expect(startTestGateway({ command: 'no-such-server', args: [] })).rejects.toThrow(
      'the command no-such-server, does not speak MCP: cannot run no-such-server: it was not found',
    );
  });

  test('since its command contains the arguments, is said to be so', async () => {
    const started = startTestGateway({ command: 'npx -y some-server', args: [] });
    await expect(started).rejects.toThrow(
      'cannot run npx -y some-server: it was not found; if it contains arguments, put them into upstream.args',
    );
  });

  // Rule stdio-4.
  test('ends each request at once, and is started with growing delays', async () => {
    const pids = await pidFile();
    const gateway = await gatewayFor(server('fails', { PIDS: pids.path }));
    for (let call = 0; call < 5; call += 1) {
      const { response } = await callTool(gateway.url, 'pid');
      expect(response.error.data).toMatchObject({ mayHaveActed: 'no' });
    }
    expect(gateway.log.named('upstream.unavailable')[0]).toMatchObject({
      problem:
        'the process ended with exit code 3 before it replied to anything; it wrote to standard error: Error: no DATABASE_URL',
    });
    expect((await pids.all()).length).toBeLessThanOrEqual(4);
  });

  // Rule stdio-5: Lines of standard output that are no messages are ignored. 1 MiB of them, or a line longer than
  // `upstream.maxEvent`, ends the session.
  test.each([
    { manner: 'rubbish', says: /what it writes is not JSON-RPC, such as "rubbish / },
    {
      manner: 'endless-line',
      says: /it wrote a line that is too long \(upstream\.maxEvent is 4 MiB, and it has more\)/,
    },
  ])('since it writes $manner, keeps the gateway from starting', async ({ manner, says }) => {
    const pids = await pidFile();
    await expect(startTestGateway(server(manner, { PIDS: pids.path }))).rejects.toThrow(says);
    await until(async () => !(await pids.all()).some(isRunning));
  });

  test('since it writes nothing, is reported as one that does not reply', async () => {
    withoutNetworkVariables();
    const gateway = await gatewayFor(server('silent'), { upstream: { headersTimeoutMs: 300 } });
    const { response } = await callTool(gateway.url, 'pid');
    expect(response.error.data).toMatchObject({ mayHaveActed: 'no' });
    expect(gateway.log.named('upstream.unavailable')[0]).toMatchObject({
      problem: 'no reply to initialize within 300 ms (it wrote nothing)',
    });
  });

  // Rule stdio-9: If a process does not reply to `initialize` in time, the error names the variables for proxies,
  // certificates and registries that it did not get.
  test('maybe since it lacks variables of the gateway, is reported with their names', async () => {
    withoutNetworkVariables();
    vi.stubEnv('https_proxy', 'http://ada:hunter2-of-the-proxy@proxy/');
    vi.stubEnv('NODE_EXTRA_CA_CERTS', '/nowhere/ca.pem');
    vi.stubEnv('npm_config_registry', 'http://registry/');
    const stdio = server('silent', { NPM_CONFIG_REGISTRY: 'http://registry/' });
    const gateway = await gatewayFor(stdio, { upstream: { headersTimeoutMs: 300 } });
    await callTool(gateway.url, 'pid');
    expect(gateway.log.named('upstream.unavailable')[0]).toMatchObject({
      problem:
        'no reply to initialize within 300 ms (it wrote nothing); NODE_EXTRA_CA_CERTS, https_proxy of the gateway are not passed on to it: --env NAME passes one on (upstream.env in a file)',
    });
    expect(JSON.stringify(gateway.log.lines)).not.toContain('hunter2');
  });

  // Rule stdio-5.
  test('is served although it greets and logs on standard output', async () => {
    const gateway = await gatewayFor(server('chatty'));
    expect(await textOf(gateway.url, 'pid')).toMatch(/^\d+$/);
    const lines = gateway.log.named('process.wrote').filter(({ stream }) => stream === 'stdout');
    expect(lines[0]).toMatchObject({ line: 'Welcome to the server!' });
  });

  // Rule stdio-5.
  test('after a line without an end fails the call', async () => {
    const gateway = await gatewayFor(server('plain'));
    const { response } = await callTool(gateway.url, 'long-line');
    expect(response.result).toMatchObject(failed('call_lost', 'unknown'));
    await gateway.log.saw('process.crashed');
    expect(gateway.log.named('process.crashed')).toMatchObject([
      { problem: 'it wrote a line that is too long (upstream.maxEvent is 4 MiB, and it has more)' },
    ]);
  });
});

describe('a server that ignores the end of its input and SIGTERM, and has started another process', () => {
  // Rule stdio-6: A process group ends by closed input, then SIGTERM, then SIGKILL, even if the gateway is killed.
  test('is gone with the gateway that is killed', { tags: ['linux', 'long'] }, async () => {
    const pids = await pidFile();
    const upstream = {
      command: process.execPath,
      args: [SERVER, 'stubborn'],
      env: { PIDS: pids.path },
    };
    const gateway = await GatewayProcess.start({ upstream: '', route: { upstream } });
    stopAfterTest(() => gateway.kill());
    await textOf(gateway.url, 'pid');
    // Those of the greeting take seconds to end.
    await until(async () => (await pids.all()).filter(isRunning).length <= 2);
    const running = (await pids.all()).filter(isRunning);
    expect(running).toHaveLength(2);
    await gateway.kill();
    await until(() => !running.some(isRunning));
  });

  // Rule stdio-6.
  test('is gone with the gateway that is closed', { tags: ['long'] }, async () => {
    const pids = await pidFile();
    const gateway = await startTestGateway(server('stubborn', { PIDS: pids.path }));
    await textOf(gateway.url, 'pid');
    await gateway.close();
    expect((await pids.all()).some(isRunning)).toBe(false);
  });
});

describe('a legacy client of a server over stdio', () => {
  // Rule stdio-7: With `edge.legacyClients: reject`, a legacy client gets 400, -32022, and 405 for GET and DELETE.
  test('is refused with the revision that is served, if the operator says so', async () => {
    const { url } = await gatewayFor(server('plain'), { edge: { legacyClients: 'reject' } });
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c' } };
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { code: -32022, data: { supported: ['2026-07-28'], requested: '2025-11-25' } },
    });
    for (const method of ['GET', 'DELETE']) {
      const other = await fetch(url, { method });
      expect([other.status, other.headers.get('allow')]).toEqual([405, 'POST']);
    }
  });
});
