/** The processes of a server over stdio, when all of them end together. */
import { expect, test } from 'vitest';
import { systemClock } from '../../../src/lib/clock.ts';
import { EMPTY_PROFILE } from '../../../src/protocol/translate/client-profile.ts';
import { StdioUpstream } from '../../../src/upstream/stdio-upstream.ts';

/** Reads, and never says anything. */
const SILENT = 'process.stdin.resume()';

test('a session whose server has not replied yet ends when all processes end', async () => {
  const started = Promise.withResolvers<void>();
  const upstream = new StdioUpstream(
    {
      process: {
        ...{ command: process.execPath, args: ['-e', SILENT], env: {}, inherited: ['PATH'] },
        cwd: null,
      },
      maxProcesses: 1,
      ...{ era: 'auto', headersTimeoutMs: 60_000, maxEventBytes: 1_000, pingIntervalMs: 60_000 },
      gatewayInfo: { name: 'mrtr-gateway', version: '0' },
      log: {
        event: (name) => {
          if (name === 'process.started') started.resolve();
        },
        once: () => {},
      },
    },
    systemClock,
  );
  const opening = upstream.openSession({ profile: EMPTY_PROFILE, clientInfo: null, headers: {} });
  const refused = expect(opening).rejects.toMatchObject({ code: 'session_gone' });
  await started.promise;
  await upstream.close();
  await refused;
});
