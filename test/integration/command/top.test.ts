/** `mrtr-gateway top` beside a real gateway. */
import { execFile } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { top } from '../../../src/cli/top.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { greeter, legacyServer, replica } from '../../fixtures/gateways/replica-testbed.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const COMMAND = fileURLToPath(new URL('../../../bin/mrtr-gateway.js', import.meta.url));
const run = promisify(execFile);

// Rule live-9: `mrtr-gateway top` shows the same in a terminal until `q`, or prints it once.
test('top prints what happens now once where its output is no terminal', async () => {
  const gateway = await replica(await legacyServer({ tools: greeter().tools }));
  await callTool(gateway.url, 'greet', {});
  const { stdout } = await run(process.execPath, [COMMAND, 'top', gateway.adminUrl]);
  expect(stdout).toMatch(/^mrtr-gateway \d+\.\d+\.\d+: ready\n1 waiting, 0 running, 1 session,/);
  expect(stdout).toMatch(/\ngreet +elicitation-form +\d+s +local-user +\S+ +mcp +1 +\S{6}\n$/);
  expect(stdout).not.toContain('\u001b');
});

test('top says why it cannot read', async () => {
  const failed = run(process.execPath, [COMMAND, 'top', 'http://127.0.0.1:9', '--once']);
  await expect(failed).rejects.toMatchObject({
    code: 69,
    stderr: expect.stringMatching(
      /^mrtr-gateway: cannot read http:\/\/127\.0\.0\.1:9\/live\.json: /,
    ),
  });
});

test('top says that a name is not known to the admin listener', async () => {
  const server = createServer((_request, response) => void response.writeHead(403).end());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stopAfterTest(async () => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await expect(run(process.execPath, [COMMAND, 'top', url, '--once'])).rejects.toMatchObject({
    stderr: expect.stringMatching(/responded with HTTP 403; expected the IP address of a gateway/),
  });
});

test('top refreshes in place on a terminal, says when it is stale, and leaves with q', async () => {
  const gateway = await replica(await legacyServer({ tools: greeter().tools }));
  const keys = new EventEmitter();
  const raw: boolean[] = [];
  const stdin = Object.assign(keys, { isTTY: true, setRawMode: (on: boolean) => raw.push(on) });
  const stdout = Object.assign(new PassThrough(), { isTTY: true, columns: 70, rows: 20 });
  let written = '';
  stdout.setEncoding('utf8').on('data', (text: string) => (written += text));
  const env = { NO_COLOR: '1' };
  const host = { env, stdin, stdout, stderr: new PassThrough(), on: () => {} };
  const left = top({ kind: 'top', url: gateway.adminUrl, once: false }, host);
  const SOON = { timeout: 20_000 };
  await expect.poll(() => written, SOON).toContain('0 waiting');
  await callTool(gateway.url, 'greet', {});
  await expect.poll(() => written, SOON).toContain('1 waiting');
  await gateway.kill();
  await expect.poll(() => written, SOON).toContain('Stale, trying again');
  keys.emit('data', Buffer.from('q'));
  expect(await left).toBe(0);
  expect(raw).toEqual([true]);
  expect(written.startsWith('\u001b[?1049h')).toBe(true);
  expect(written.endsWith('\u001b[?1049l')).toBe(true);
});
