/**
 * `npm run clients`: published clients, one after the other, without a person, in front of three servers behind the gateway. What
 * each does is read from the messages between it and the gateway, and goes to docs/clients.md.
 */
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { install } from '../install.ts';
import { Program } from '../processes.ts';
import type { PublishedClient } from './client.ts';
import { canIsolate, onLoopbackAlone, withItsProcesses } from './isolation.ts';
import { Model } from './model.ts';
import { CLIENTS, DOCUMENTED } from './published.ts';
import { readBehaviour } from './reading.ts';
import { Recorder } from './recorder.ts';
import { keepResults, readResults, writeFormatted, type Meeting, type Result } from './results.ts';
import { MODERN_SDK, SERVERS, startStage, type ServerKind } from './stage.ts';
import { table } from './table.ts';

const CACHE = '.sweep';
const PAGE = fileURLToPath(new URL('../../docs/clients.md', import.meta.url));
const MARKS = ['<!-- clients: begin -->', '<!-- clients: end -->'] as const;
const MAX_MS = 120_000;

const { values, positionals } = parseArgs({
  options: {
    server: { type: 'string', default: '' },
    verbose: { type: 'boolean', default: false },
    installed: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h' },
  },
  allowPositionals: true,
});
if (values.help) {
  console.log(`npm run clients [-- NAME...] [--server KIND] [--verbose]

Starts published MCP clients in front of three servers behind the gateway, and writes what they do to docs/clients.md.
NAME: only clients whose name contains it; the rows of the others stay.
--server: only servers whose kind contains it, of ${SERVERS.join(', ')}; what was found with the others stays.
Needs npm, python3 with venv, and the registries of both; about 3 GB in ${CACHE}/, and a quarter of an hour the first time.
After the installation nothing but loopback is used; on Linux with unshare and ip there is nothing else.`);
  process.exit();
}
const chosen = CLIENTS.filter(
  ({ name, setting = '' }) =>
    positionals.length === 0 ||
    positionals.some((part) => `${name} ${setting}`.toLowerCase().includes(part.toLowerCase())),
);

if (values.installed) await meetAll();
else {
  await installAll();
  if (canIsolate()) {
    const again = [process.execPath, ...process.argv.slice(1), '--installed'];
    process.exitCode = await onLoopbackAlone(again);
  } else {
    console.error('without unshare the clients could reach the network; they are told not to');
    await meetAll();
  }
}

async function installAll(): Promise<void> {
  await install(CACHE, MODERN_SDK);
  for (const { name, package: from } of chosen) {
    process.stderr.write(`${name}: installed`);
    await install(CACHE, from);
    process.stderr.write('\n');
  }
}

async function meetAll(): Promise<void> {
  const cwd = await mkdtemp(join(tmpdir(), 'clients-'));
  const results: Result[] = [];
  try {
    const sdk = dirname(dirname(await install(CACHE, MODERN_SDK)));
    await using stage = await startStage(sdk, cwd);
    for (const client of chosen) {
      const meetings: [ServerKind, Meeting][] = [];
      const before = readResults().find(
        ({ name, setting }) => name === client.name && setting === client.setting,
      );
      for (const server of SERVERS) {
        if (before !== undefined && !server.includes(values.server)) {
          meetings.push([server, before.with[server]]);
          continue;
        }
        const met = await meet(client, stage.urls[server]);
        // A client that asked its model before it had the tools is started once more.
        const isEarly = met.tools !== null && met.echo.kind === 'never called';
        meetings.push([server, isEarly ? await meet(client, stage.urls[server]) : met]);
      }
      results.push({
        name: client.name,
        ...(client.setting !== undefined && { setting: client.setting }),
        version: client.package.version,
        date: new Date().toISOString().slice(0, 10),
        with: Object.fromEntries(meetings) as Result['with'],
      });
      console.error(table([client], results, []).split('\n').at(-1));
    }
  } finally {
    await rm(cwd, { recursive: true, force: true, maxRetries: 3 });
  }
  const all = await keepResults(results);
  const dates = [...new Set(all.map(({ date }) => date))].sort();
  await writePage(`Run on ${dates.join(', ')}.\n\n${table(CLIENTS, all, DOCUMENTED)}`);
}

/** Lets a client do what it does with one server, in a home of its own. */
async function meet(client: PublishedClient, url: URL): Promise<Meeting> {
  const bin = await install(CACHE, client.package);
  if (client.program !== undefined)
    await copyFile(
      new URL(`programs/${client.program}`, import.meta.url),
      // A module finds its packages from the folder that it is in.
      join(bin, '../..', client.program.replace('.js', '.mjs')),
    );
  const home = await mkdtemp(join(tmpdir(), 'home-'));
  try {
    await using model = await Model.start();
    await using recorder = await Recorder.start(url);
    const place = { bin, home, url: recorder.url, model: model.origin };
    const { command, env, files } = client.start(place);
    for (const [path, text] of Object.entries(files ?? {})) {
      await mkdir(dirname(join(home, path)), { recursive: true });
      await writeFile(join(home, path), text);
    }
    await using program = new Program(values.installed ? withItsProcesses(command) : command, {
      env: {
        PATH: process.env['PATH'],
        HOME: home,
        LANG: 'C.UTF-8',
        TERM: 'xterm-256color',
        // Whoever looks for the network finds a port where nothing listens.
        HTTPS_PROXY: 'http://127.0.0.1:9',
        NO_PROXY: '127.0.0.1,localhost',
        ...env,
      },
      cwd: home,
    });
    const code = await program.exit(MAX_MS);
    if (values.verbose) {
      console.error(`${client.name} wrote:\n${program.written}`);
      for (const entry of recorder.record) console.error(JSON.stringify(entry).slice(0, 1_000));
    }
    return { ...readBehaviour(recorder.record), ended: code !== null };
  } finally {
    await rm(home, { recursive: true, force: true, maxRetries: 3 });
  }
}

async function writePage(found: string): Promise<void> {
  const page = await readFile(PAGE, 'utf8');
  const [before = '', rest = ''] = page.split(MARKS[0]);
  const [, after = ''] = rest.split(MARKS[1]);
  const whole = `${before}${MARKS[0]}\n\n${found}\n\n${MARKS[1]}${after}`;
  await writeFormatted(PAGE, whole);
}
