/** The servers and clients of docs/tutorial.md are the first ones that people try: they must work as they stand there. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { freePort, startServer } from '../../fixtures/processes.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const ROOT = new URL('../../../', import.meta.url);
const TUTORIAL = readFileSync(new URL('docs/tutorial.md', ROOT), 'utf8');
/** What the tutorial writes for addresses that are free there. */
const GATEWAY_URL = 'http://127.0.0.1:8080/mcp';
const SERVER_PORT = '3001';

const { MCP_PYTHON_2: python = '' } = process.env;

/** In the order in which the tutorial has them: the server, then the client. */
const LANGUAGES = [
  { language: 'js', command: process.execPath, ending: 'mjs' },
  ...(python === '' ? [] : [{ language: 'python', command: python, ending: 'py' }]),
] as const;
type Language = (typeof LANGUAGES)[number];

describe.each(LANGUAGES)('the $language server of the tutorial', (language) => {
  test('is asked over stdio by the clients of the tutorial, and each call is parked', async () => {
    const { command } = language;
    const gateway = await testGateway({ command, args: [save(language, 0, (code) => code)] });
    await asked(gateway);
  });

  test('is asked over HTTP by the clients of the tutorial, and each call is parked', async () => {
    const port = await freePort();
    const file = save(language, 0, (code) => code.replaceAll(SERVER_PORT, String(port)));
    const ready = /(running|listening) on/;
    const server = await startServer(language.command, [file, 'http'], { ready, port });
    stopAfterTest(() => server.stop());
    await asked(await testGateway(`${server.origin}/mcp`));
  });
});

/** Lets each client of the tutorial call the tool. */
async function asked(gateway: Awaited<ReturnType<typeof testGateway>>): Promise<void> {
  for (const client of LANGUAGES) {
    const file = save(client, 1, (code) => {
      expect(code.split(GATEWAY_URL)).toHaveLength(2);
      return code.replace(GATEWAY_URL, gateway.url);
    });
    const { stdout } = await promisify(execFile)(client.command, [file]);
    expect(stdout).toMatch(/^asked: What is your name\? .*name.*\nHello Ada\n$/);
  }
  for (const event of ['call.parked', 'call.resumed', 'call.ended'] as const) {
    expect(gateway.log.named(event), event).toHaveLength(LANGUAGES.length);
  }
}

/** Saves a program of the tutorial in a folder of its own. @returns its path */
function save(
  { language, ending }: Language,
  place: 0 | 1,
  changed: (code: string) => string,
): string {
  const blocks = [...TUTORIAL.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 'gs'))];
  expect(blocks).toHaveLength(2);
  const folder = mkdtempSync(join(tmpdir(), 'mrtr-gateway-tutorial-'));
  stopAfterTest(async () => rmSync(folder, { recursive: true }));
  symlinkSync(fileURLToPath(new URL('node_modules', ROOT)), join(folder, 'node_modules'));
  const file = join(folder, `program.${ending}`);
  writeFileSync(file, changed(blocks[place]?.[1] ?? ''));
  return file;
}
