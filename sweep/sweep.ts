/**
 * `npm run sweep`: published legacy servers, one after the other, seen directly by a legacy client and through the gateway
 * by a modern one. Installs them into `.sweep/`, and writes docs/servers.md when all of them ran.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { compare } from './compare.ts';
import { install } from './install.ts';
import { httpTransport, observe, stdioTransport, type Observation } from './observe.ts';
import { freePort, Program, startGateway } from './processes.ts';
import type { PublishedServer } from './server.ts';
import { SERVERS } from './servers.ts';
import { table, verdict, type Result, type Verdict } from './table.ts';

const CACHE = '.sweep';
const PAGE = new URL('../docs/servers.md', import.meta.url);
const MARK = '<!-- results -->';

const { values, positionals } = parseArgs({
  options: { verbose: { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h' } },
  allowPositionals: true,
});
if (values.help) {
  console.log(`npm run sweep [-- NAME...] [--verbose]

Compares published MCP servers as a legacy client sees them directly with what a modern client sees through the gateway.
NAME: only servers whose name contains it. Without names the results go to docs/servers.md.
Needs npm, python3 with venv, go, and the registries of all three; about 3 GB in ${CACHE}/ and half an hour the first time.`);
  process.exit();
}

const chosen = SERVERS.filter(
  ({ name }) => positionals.length === 0 || positionals.some((part) => name.includes(part)),
);
const results: Result[] = [];
for (const [index, server] of chosen.entries()) {
  process.stderr.write(
    `${index + 1}/${chosen.length} ${server.name} (${server.start.transport}) ... `,
  );
  const result = await sweep(server).catch((error: unknown) => ({
    server,
    failure: error instanceof Error ? error.message : String(error),
  }));
  results.push(result);
  process.stderr.write(`${verdict(result)}\n`);
  if (values.verbose || verdict(result) === 'differs')
    console.error(JSON.stringify({ ...result, server: undefined }, null, 1).slice(0, 6_000));
}
const count = (wanted: Verdict) => results.filter((result) => verdict(result) === wanted).length;
const packages = new Set(results.map(({ server }) => server.package.name)).size;
const summary = `${packages} servers in ${results.length} set-ups: ${count('works')} work, ${count('no result')} fail the same way directly, ${count('differs')} differ.`;
if (positionals.length === 0) await writePage();
else console.log(table(results));
console.error(summary);
process.exitCode = count('differs') === 0 ? 0 : 1;

async function sweep(server: PublishedServer): Promise<Result> {
  const bin = await install(CACHE, server.package);
  const direct = await inFolder(bin, server, 'direct');
  const through = await inFolder(bin, server, 'gateway');
  const masked = [direct.dir, through.dir, String(direct.port), String(through.port)];
  return { server, comparison: compare(direct.seen, through.seen, server, masked) };
}

/** Each way gets a folder and a process of its own, since servers keep state. */
async function inFolder(
  bin: string,
  server: PublishedServer,
  way: 'direct' | 'gateway',
): Promise<{ readonly seen: Observation; readonly dir: string; readonly port: number }> {
  const dir = await mkdtemp(join(tmpdir(), 'sweep-'));
  const port = await freePort();
  try {
    await writeFile(join(dir, 'hello.txt'), 'hello from the sweep\n');
    await writeFile(join(dir, 'good.js'), 'export const one = 1;\n');
    await writeFile(join(dir, 'eslint.config.js'), 'export default [];\n');
    await writeFile(join(dir, 'package.json'), '{"type":"module"}\n');
    const started = resolved(server, { bin, port: String(port), dir });
    return { seen: await connected(started, way, dir, port), dir, port };
  } finally {
    await rm(dir, { recursive: true, force: true, maxRetries: 3 });
  }
}

async function connected(
  server: PublishedServer,
  way: 'direct' | 'gateway',
  dir: string,
  port: number,
): Promise<Observation> {
  const { transport, command, env = {}, path = '/mcp' } = server.start;
  const whole = { PATH: process.env['PATH'] ?? '', HOME: dir, ...env };
  const flags = server.flags?.args ?? [];
  if (transport === 'stdio') {
    if (way === 'direct')
      return await observe(
        { era: 'legacy', transport: stdioTransport(command, whole, dir) },
        server,
        dir,
      );
    const variables = Object.entries({ HOME: dir, ...env }).map(
      ([name, value]) => `${name}=${value}`,
    );
    const args = [...flags, '--stdio', '--', 'env', ...variables, ...command];
    await using _gateway = await startGateway(args, port, dir);
    return await observe(
      { era: 'modern', url: new URL(`http://127.0.0.1:${port}/mcp`) },
      server,
      dir,
    );
  }
  await using program = new Program(command, { env: whole, cwd: dir });
  await program.listens(port);
  const url = new URL(path, `http://localhost:${port}`);
  if (way === 'direct')
    return await observe({ era: 'legacy', transport: httpTransport(transport, url) }, server, dir);
  const edge = await freePort();
  await using _gateway = await startGateway([...flags, '--upstream', url.href], edge, dir);
  return await observe(
    { era: 'modern', url: new URL(`http://127.0.0.1:${edge}/mcp`) },
    server,
    dir,
  );
}

function resolved(
  server: PublishedServer,
  places: Readonly<Record<string, string>>,
): PublishedServer {
  const text = JSON.stringify({ start: server.start, calls: server.calls });
  const placed = text.replaceAll(
    /\{(bin|port|dir)\}/g,
    (whole, name: string) => places[name] ?? whole,
  );
  const { start, calls } = JSON.parse(placed) as Pick<PublishedServer, 'start' | 'calls'>;
  return {
    ...server,
    start,
    calls: calls.map((call, index) => ({ ...call, varies: server.calls[index]?.varies })),
  } as PublishedServer;
}

async function writePage(): Promise<void> {
  const [introduction = ''] = (await readFile(PAGE, 'utf8')).split(MARK);
  const date = new Date().toISOString().slice(0, 10);
  await writeFile(PAGE, `${introduction}${MARK}\n\n${date}, ${summary}\n\n${table(results)}\n`);
}
