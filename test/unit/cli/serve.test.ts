import { describe, expect, test, vi } from 'vitest';
import { EXIT } from '../../../src/cli/exit-codes.ts';
import { serve, type ConfigSource, type Start } from '../../../src/cli/serve.ts';
import type { Config } from '../../../src/config/schema.ts';
import { configFromFlags } from '../../../src/config/load/from-flags.ts';
import type { Gateway } from '../../../src/app/gateway.ts';
import { reportDefect } from '../../../src/lib/background.ts';
import { StartFailure, type StartFailureCode } from '../../../src/lib/program.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { testHost } from './test-host.ts';

const config = configFromFlags({ upstream: 'http://127.0.0.1:3001/mcp?key=hunter2' });

const KEY = {
  kid: 'a',
  key: Buffer.from('0123456789abcdef0123456789abcdef').toString('base64url'),
};
const JWT = { source: 'jwt', mode: 'required', jwks: { url: new URL('https://a/k'), file: null } };

/** A gateway that drains when the test says so. */
function testGateway() {
  const drained = Promise.withResolvers<void>();
  const gateway = {
    url: 'http://127.0.0.1:8080/mcp',
    adminUrl: null,
    reload: vi.fn<Gateway['reload']>(async (load) => {
      load();
      return true;
    }),
    drain: vi.fn(() => drained.promise),
    close: vi.fn(async () => {}),
  } satisfies Gateway;
  return { gateway, drained };
}

/** Starts, and waits until it serves. */
async function serving(
  options: { terminal?: boolean; source?: ConfigSource; config?: Config } = {},
) {
  const host = testHost(options);
  const clock = new ManualClock();
  const { gateway, drained } = testGateway();
  const started = Promise.resolve(gateway);
  const code = serve(options.config ?? config, host, () => started, clock, options.source);
  await started;
  stopAfterTest(async () => {
    drained.resolve();
    host.emit('SIGTERM');
    await code;
  });
  return { host, clock, gateway, drained, code };
}

describe('signals', () => {
  // Rule drain-3: SIGTERM and SIGINT drain, and SIGHUP without a configuration file or with a terminal.
  test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    '%s drains, and then the exit code is 0',
    async (signal) => {
      const { host, gateway, drained, code } = await serving();
      host.emit(signal);
      expect(gateway.drain).toHaveBeenCalledOnce();
      drained.resolve();
      expect(await code).toBe(EXIT.ok);
      expect(host.log().at(-1)).toMatchObject({ event: 'gateway.stopped', code: 0 });
    },
  );

  describe('where there is a configuration file', () => {
    const source = () => {
      const watch = vi.fn<(listener: () => void) => void>();
      const file = { watch, close: vi.fn(), isWritten: () => false };
      return { load: vi.fn(() => config), file };
    };

    // Rule reload-5: SIGHUP reloads it, and so does a change of the file or of a file that it references, also by
    // swapped links.
    test('SIGHUP and a change of the file load it again', async () => {
      const changing = source();
      const { host, gateway } = await serving({ source: changing });
      host.emit('SIGHUP');
      expect(gateway.reload).toHaveBeenCalledOnce();
      expect(changing.load).toHaveBeenCalledOnce();
      expect(gateway.drain).not.toHaveBeenCalled();
      changing.file.watch.mock.lastCall?.[0]();
      expect(gateway.reload).toHaveBeenCalledTimes(2);
      host.emit('SIGTERM');
      expect(changing.file.close).toHaveBeenCalledOnce();
    });

    // Rule drain-3.
    test('SIGHUP drains if a terminal is attached', async () => {
      const { host, gateway } = await serving({ source: source(), terminal: true });
      host.emit('SIGHUP');
      expect(gateway.drain).toHaveBeenCalledOnce();
      expect(gateway.reload).not.toHaveBeenCalled();
    });
  });

  test.each([
    ['SIGTERM', EXIT.terminated],
    ['SIGINT', EXIT.interrupted],
    ['SIGHUP', EXIT.hungUp],
  ] as const)('a second %s ends it at once with %d', async (signal, exitCode) => {
    const { host, clock, gateway, code } = await serving();
    host.emit('SIGTERM');
    clock.advance(500);
    host.emit(signal);
    expect(await code).toBe(exitCode);
    expect(gateway.drain).toHaveBeenCalledOnce();
  });

  test('a signal that arrives twice at the same moment, as under npm, is one', async () => {
    const { host, clock, gateway, drained, code } = await serving();
    host.emit('SIGINT');
    clock.advance(499);
    host.emit('SIGINT');
    drained.resolve();
    expect(await code).toBe(EXIT.ok);
    expect(gateway.drain).toHaveBeenCalledOnce();
  });

  test('before the start is complete a signal ends it at once', async () => {
    const host = testHost();
    const code = serve(config, host, () => new Promise(() => {}));
    host.emit('SIGTERM');
    expect(await code).toBe(EXIT.terminated);
  });
});

describe('a start that fails', () => {
  test.each<[StartFailureCode, number]>([
    ['port_in_use', 73],
    ['address_unavailable', 73],
    ['not_permitted', 77],
    ['upstream_not_mcp', 69],
    ['upstream_refused', 69],
    ['redis_unavailable', 69],
  ])('%s is one line and exit code %d', async (failure, exitCode) => {
    const start: Start = () => Promise.reject(new StartFailure(failure, 'so it is; do this'));
    const terminal = testHost({ errors: 'terminal' });
    expect(await serve(config, terminal, start)).toBe(exitCode);
    expect(terminal.stderr.text.split('\n')[0]).toBe(
      `mrtr-gateway: so it is; do this (${failure})`,
    );
    expect(terminal.stdout.text).toBe('');
    const host = testHost();
    expect(await serve(config, host, start)).toBe(exitCode);
    expect(host.log()).toMatchObject([
      {
        level: 'fatal',
        event: 'gateway.start_failed',
        code: failure,
        problem: 'so it is; do this',
      },
      { event: 'gateway.stopped', code: exitCode },
    ]);
  });

  test('for a reason of our own is a log line and exit code 70', async () => {
    const host = testHost();
    const start: Start = () => Promise.reject(new TypeError('oops'));
    expect(await serve(config, host, start)).toBe(EXIT.internal);
    expect(host.log()[0]).toMatchObject({
      event: 'gateway.crashed',
      problem: expect.stringMatching(/^TypeError: oops at /),
    });
  });
});

// Rule start-3: Warnings of `check` are logged at the start and when they change (`config.risky`).
describe('what is risky', () => {
  const OPEN = configFromFlags({ upstream: 'http://127.0.0.1:3001/mcp', listen: ':8080' });
  const WORKERS: Config = { ...config, listen: OPEN.listen, seal: { ...config.seal, keys: [KEY] } };
  const line = (field: string) => ({ level: 'warn', event: 'config.risky', field });
  const risks = (host: ReturnType<typeof testHost>) =>
    host.log().filter(({ event }) => event === 'config.risky');

  test('is a line for each risk, also without a file', async () => {
    const { host } = await serving({ config: OPEN });
    expect(risks(host)).toMatchObject([
      {
        ...line('listen'),
        problem: expect.stringMatching(/^0\.0\.0\.0:8080 is open to the network/),
      },
      { ...line('seal.keys'), problem: expect.stringMatching(/no key is configured/) },
    ]);
  });

  test('is nothing for a server on this machine without more', async () => {
    const { host } = await serving();
    expect(host.log()).toEqual([]);
  });

  test('is logged again after a reload that changed it, and only then', async () => {
    const loads = [OPEN, WORKERS, WORKERS, config, config];
    const source = {
      load: () => loads.shift() ?? config,
      file: { watch: vi.fn(), close: vi.fn(), isWritten: () => false },
    };
    const { host, gateway } = await serving({ config: OPEN, source });
    const reload = async () => {
      host.emit('SIGHUP');
      await gateway.reload.mock.results.at(-1)?.value;
      return risks(host).length;
    };
    expect([await reload(), await reload(), await reload()]).toEqual([2, 3, 3]);
    expect(risks(host).at(-1)).toMatchObject(line('listen'));
    expect(await reload()).toBe(3);
    gateway.reload.mockImplementation(async (load) => {
      load();
      return false;
    });
    loads.unshift(OPEN);
    expect(await reload()).toBe(3);
  });

  test('depends on what the file has a value for', async () => {
    const audiences = ['https://m/mcp'];
    const resourceMetadata = { resource: 'https://m/mcp', authorizationServers: [], scopes: [] };
    const identity = { ...JWT, audiences, resourceMetadata } as unknown as Config['identity'];
    const isWritten = vi.fn((path: readonly (string | number)[]) => path[0] === 'routes');
    const source = { load: () => config, file: { watch: vi.fn(), close: vi.fn(), isWritten } };
    const { host } = await serving({ config: { ...config, identity }, source });
    expect(risks(host)).toMatchObject([line('routes[0].upstream.authorization')]);
  });
});

// Rule start-4: A defect ends its call with -32603 `internal_error` and is logged (`gateway.defect`). The process
// goes on.
test('a defect in work that nobody waits for is a log line, and the gateway goes on', async () => {
  const { host, gateway, drained, code } = await serving();
  reportDefect({ error: new TypeError('oops'), route: 'mcp', call: 'one' });
  host.emit('SIGTERM');
  expect(gateway.drain).toHaveBeenCalledOnce();
  drained.resolve();
  expect(await code).toBe(EXIT.ok);
  expect(host.log()).toMatchObject([
    {
      level: 'error',
      event: 'gateway.defect',
      route: 'mcp',
      call: 'one',
      problem: expect.stringMatching(/^TypeError: oops at /),
    },
    {},
  ]);
});

describe('an error that nobody caught', () => {
  test.each(['uncaughtException', 'unhandledRejection'] as const)(
    'is one log line and exit code 70 (%s)',
    async (event) => {
      const { host, code } = await serving();
      host.emit(event, new Error('lost\nits way'));
      expect(await code).toBe(EXIT.internal);
      expect(host.log().map((line) => line['event'])).toEqual([
        'gateway.crashed',
        'gateway.stopped',
      ]);
    },
  );

  test('need not be an Error', async () => {
    const { host, code } = await serving();
    host.emit('unhandledRejection', 'just text');
    await code;
    expect(host.log()[0]).toMatchObject({ problem: 'just text' });
  });

  test('ends it also while it drains', async () => {
    const { host, drained, code } = await serving();
    host.emit('SIGTERM');
    drained.reject(new Error('stuck'));
    expect(await code).toBe(EXIT.internal);
  });
});

describe('standard output', () => {
  test('has one line on a terminal, without what the query of the upstream holds', async () => {
    const { host, drained, code } = await serving({ terminal: true });
    host.emit('SIGTERM');
    drained.resolve();
    await code;
    expect(host.stdout.text).toBe(
      'mrtr-gateway listening on http://127.0.0.1:8080/mcp -> http://127.0.0.1:3001/mcp\n',
    );
  });

  test('names every route on a terminal, with its server', async () => {
    const [route] = config.routes;
    const second = configFromFlags({ upstream: { command: 'npx', args: ['-y'], env: {} } });
    const routes = [route!, ...second.routes.map((other) => ({ ...other, path: '/files/mcp' }))];
    const { host, drained, code } = await serving({
      terminal: true,
      config: { ...config, routes },
    });
    host.emit('SIGTERM');
    drained.resolve();
    await code;
    expect(host.stdout.text.split('\n')).toEqual([
      'mrtr-gateway listening on http://127.0.0.1:8080/mcp -> http://127.0.0.1:3001/mcp',
      '                          http://127.0.0.1:8080/files/mcp -> the command npx',
      '',
    ]);
  });

  test('is empty elsewhere', async () => {
    const { host, drained, code } = await serving();
    host.emit('SIGTERM');
    drained.resolve();
    await code;
    expect(host.stdout.text).toBe('');
  });
});
