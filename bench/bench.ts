/**
 * Measures the gateway beside its peers in one run and prints what it found. Everything runs in
 * processes of its own, on loopback, and ends with this one.
 */
import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { nginxVersion } from './calls/nginx.ts';
import { describeMachine } from './machine/machine.ts';
import { readOptions, usage, type BenchOptions } from './options.ts';
import type { Finding } from './part.ts';
import { PARTS } from './parts.ts';
import { Child } from './processes/child.ts';
import { CHECKOUT } from './processes/gateway-process.ts';
import { UPSTREAM } from './processes/upstreams.ts';
import { Progress } from './report/progress.ts';
import { reportJson, reportMarkdown, reportText, type Report } from './report/report.ts';

const NAMES = PARTS.map(({ name }) => name);
const FORMATS = { text: reportText, json: reportJson, markdown: reportMarkdown };

const options = readOptions(process.argv.slice(2), NAMES);
if (options === null) {
  console.log(usage(NAMES));
} else {
  const folder = await mkdtemp(join(tmpdir(), 'mrtr-gateway-bench-'));
  // However this process ends, it takes what it has made along; the children end themselves likewise.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  process.once('SIGINT', () => process.exit(130));
  process.once('SIGTERM', () => process.exit(143));
  setTimeout(() => {
    console.error(`given up after ${options.giveUpMs / 1_000} s`);
    process.exit(1);
  }, options.giveUpMs).unref();
  const report = await run(options, folder);
  console.log(FORMATS[options.print](report));
  const failed = [...report.findings].filter(([, { problem }]) => problem !== null);
  for (const [name, { problem }] of failed) console.error(`${name} failed: ${problem}`);
  process.exit(failed.length === 0 ? 0 : 1);
}

async function run(options: BenchOptions, folder: string): Promise<Report> {
  const startedAt = performance.now();
  const machine = describeMachine(CHECKOUT);
  const nginx = nginxVersion();
  const child = Child.node('the upstream', UPSTREAM, []);
  const upstream = `http://127.0.0.1:${await child.port()}`;
  const chosen = PARTS.filter(({ name }) => options.parts.includes(name));
  const steps = chosen.map(({ name, estimateMs }) => ({ name, estimateMs: estimateMs(options) }));
  const progress = new Progress(steps, process.stderr, () => performance.now());
  const findings = new Map<string, Finding>();
  try {
    for (const [index, part] of chosen.entries()) {
      progress.begin(index);
      const done = (share: number) => progress.done(share);
      findings.set(part.name, await part.run({ options, upstream, folder, nginx, done }));
    }
  } finally {
    progress.end();
    await child.stop();
  }
  const goals = PARTS.flatMap(({ name, unmeasured }) => findings.get(name)?.goals ?? unmeasured);
  const elapsedMs = performance.now() - startedAt;
  return { machine, nginx, findings, goals, elapsedMs };
}
