/** What a gateway serves that has the file of a client in place of a configuration. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { parseArguments } from '../../../src/cli/arguments.ts';
import { readServed } from '../../../src/cli/configured.ts';

const folder = mkdtempSync(join(tmpdir(), 'mrtr-configured-'));
afterAll(() => rmSync(folder, { recursive: true }));
const program = { command: 'x' };
const remote = { url: 'http://a/mcp' };
let files = 0;

function servedFrom(
  mcpServers: object,
  flags: readonly string[],
  env: Readonly<Record<string, string>> = {},
) {
  const file = join(folder, `${(files += 1)}.json`);
  writeFileSync(file, JSON.stringify({ mcpServers }));
  const words = ['--from', file, ...flags];
  const command = parseArguments(words, env);
  if (command.kind !== 'serve-from') throw new Error(`expected serve-from, got ${command.kind}`);
  return readServed(command, words, env);
}

test.each([[[]], [['--listen', '[::1]:1234']]])(
  'callers on this machine choose the folders of a program: %j',
  (flags) => {
    const { routes } = servedFrom({ program, remote }, flags).config;
    expect(routes.map(({ upstream }) => upstream.roots)).toEqual(['caller', 'none']);
  },
);

test('a program that the network would reach is refused, and no flag is named that cannot be given', () => {
  expect(() => servedFrom({ program }, ['--listen', ':8080'])).toThrow(
    /^routes\[0]\.sessions\.scope: expected shared, or an identity, .* \(or listen on loopback\)/,
  );
});

test('the default address of a container counts for the file of a client, too', () => {
  const env = { MRTR_GATEWAY_LISTEN_DEFAULT: '0.0.0.0:8080' };
  expect(servedFrom({ remote }, [], env).config.listen).toEqual({ host: '0.0.0.0', port: 8080 });
  expect(servedFrom({ remote }, ['--listen', ':9'], env).config.listen.port).toBe(9);
});

test('that it is open to the network is said of the file of a client, too', () => {
  const risk = expect.stringMatching(/^listen: 0\.0\.0\.0:8080 is open to the network/);
  expect(servedFrom({ remote }, ['--listen', ':8080']).warnings).toContainEqual(risk);
  expect(servedFrom({ remote }, []).warnings).not.toContainEqual(risk);
});

test('a variable that has no effect beside the file of a client is said', () => {
  expect(servedFrom({ remote }, [], { MRTR_GATEWAY_SEAL_KEY: 'a:b' }).warnings).toContainEqual(
    'MRTR_GATEWAY_SEAL_KEY has no effect with a file; set seal.keys in a configuration file',
  );
  const own = { remote: { ...remote, headers: { 'X-Key': '${MRTR_GATEWAY_SEAL_KEY}' } } };
  expect(servedFrom(own, [], { MRTR_GATEWAY_SEAL_KEY: 'a:b' }).warnings).toEqual([]);
});
