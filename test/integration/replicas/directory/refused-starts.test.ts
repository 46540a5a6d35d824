/** A start that Redis refuses, or at which nobody is there. */
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { DirectoryUnavailable } from '../../../../src/model/store.ts';
import type { RedisOptions } from '../../../../src/fleet/redis/options.ts';
import { freePort } from '../../../fixtures/processes.ts';
import {
  makeReplica,
  newHome,
  single,
  startReplica,
  startServer,
  TTL_MS,
} from '../../../fixtures/redis/directory-testbed.ts';

describe('the directory in Redis', { tags: ['redis'] }, () => {
  describe('a start that cannot succeed says why, and never the password', () => {
    const SECRET = 'correct-horse-battery';

    async function failure(options: RedisOptions, waitMs = 10_000): Promise<DirectoryUnavailable> {
      const { directory } = makeReplica(options);
      const error = await directory.start(waitMs).catch((thrown: unknown) => thrown);
      if (!(error instanceof DirectoryUnavailable)) throw new Error(`it gave ${inspect(error)}`);
      expect(error.code).toBe('coordination_unavailable');
      expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(SECRET);
      return error;
    }

    function withPassword(url: URL, password = SECRET, username = ''): URL {
      const changed = new URL(url);
      changed.password = encodeURIComponent(password);
      changed.username = username;
      return changed;
    }

    test('a wrong password', async () => {
      const server = await startServer({ args: ['--requirepass', 'another'] });
      const error = await failure({ ...single(server), url: withPassword(server.url) });
      expect(error.failure).toBe('auth');
      expect(error.message).toContain(`127.0.0.1:${server.port} refused the username or password`);
    });

    test('no password where one is wanted', async () => {
      const server = await startServer({ args: ['--requirepass', SECRET] });
      const error = await failure(single(server));
      expect(error.failure).toBe('auth');
      expect(error.message).toContain('requires a username or password');
    });

    test('a server that repeats the command that it does not know', async () => {
      // Renaming AUTH away makes the server answer with the command's arguments.
      const server = await startServer({ args: ['--rename-command', 'AUTH', ''] });
      const error = await failure({ ...single(server), url: withPassword(server.url) }, 500);
      expect(error.failure).toBe('store');
    });

    test('nobody at the port', async () => {
      const url = withPassword(new URL(`redis://127.0.0.1:${await freePort()}`));
      const error = await failure(single({ url }), 200);
      expect(error.failure).toBe('refused');
      expect(error.message).toContain(`${url.host} refused the connection`);
    });

    test('the right password is taken, with characters that a URL has to escape', async () => {
      const password = 'p@ss/w:rd%#?';
      const server = await startServer({ args: ['--requirepass', password] });
      const url = withPassword(server.url, password);
      const { directory } = await startReplica({ ...single(server), url });
      expect(directory.up).toBe(true);
    });

    test('a user of an access list is let in by name', async () => {
      const server = await startServer({
        args: [
          '--user',
          'gateway',
          'on',
          `>${SECRET}`,
          '~mrtr:*',
          '+@all',
          '--user',
          'default',
          'off',
        ],
      });
      const url = withPassword(server.url, SECRET, 'gateway');
      const { directory } = await startReplica({ ...single(server), url });
      expect(await directory.claim(newHome(), TTL_MS)).toMatchObject({ type: 'claimed' });
    });
  });

  test('a Cluster that refuses the login fails the start with the reason', async () => {
    const server = await startServer({
      args: [
        '--cluster-enabled',
        'yes',
        '--requirepass',
        'x',
        '--cluster-port',
        `${await freePort()}`,
      ],
    });
    const { directory } = makeReplica({ ...single(server), mode: 'cluster', nodes: [] });
    await expect(directory.start(500)).rejects.toMatchObject({ failure: 'auth' });
  });

  test('a Cluster whose nodes are gone fails the start with the reason', async () => {
    const url = new URL(`redis://127.0.0.1:${await freePort()}`);
    const { directory } = makeReplica({ ...single({ url }), mode: 'cluster', nodes: [] });
    await expect(directory.start(500)).rejects.toMatchObject({ failure: 'refused' });
  });
});
