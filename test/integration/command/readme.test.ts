/** The client of the README is the first one that people try: it must work as it stands there. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { startEverything } from '../../fixtures/processes.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const ROOT = new URL('../../../', import.meta.url);
const README = readFileSync(new URL('README.md', ROOT), 'utf8');
const PUBLIC_URL = 'http://127.0.0.1:8080/mcp';

const { MCP_PYTHON_2: python = '' } = process.env;

test('the TypeScript client of the README is asked in the middle of a call that the gateway parks', () =>
  askedAndParked('js', process.execPath, ['--input-type=module', '--eval']));

test.skipIf(python === '')(
  'the Python client of the README is asked in the middle of a call that the gateway parks',
  () => askedAndParked('python', python, ['-c']),
);

async function askedAndParked(language: string, program: string, flags: readonly string[]) {
  const [, code = ''] = new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 's').exec(README) ?? [];
  expect(code.split(PUBLIC_URL)).toHaveLength(2);
  const server = await startEverything('streamableHttp');
  stopAfterTest(() => server.stop());
  const gateway = await testGateway(`${server.origin}/mcp`);

  const { stdout } = await promisify(execFile)(
    program,
    [...flags, code.replace(PUBLIC_URL, gateway.url)],
    { cwd: fileURLToPath(ROOT) },
  );

  expect(stdout).toMatch(/^asked: Please provide inputs/);
  expect(stdout).toContain('- Name: Ada Lovelace');
  for (const event of ['call.parked', 'call.resumed', 'call.ended'] as const) {
    expect(gateway.log.named(event), event).toHaveLength(1);
  }
}
