/** What a reader must know of the machine to read its numbers; nothing that names it. */
import { spawnSync } from 'node:child_process';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';

export interface Machine {
  /** Of the run, such as `2026-01-31`. */
  readonly date: string;
  /** Of the checkout, with `+` if it has changes of its own; `null` without Git. */
  readonly commit: string | null;
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly system: string;
  readonly node: string;
  /** Of the last minute, before the run: what else the machine was doing. */
  readonly loadAverage: number;
}

/** @param checkout the folder of the version that is measured */
export function describeMachine(checkout: URL): Machine {
  return {
    date: new Date().toISOString().slice(0, 10),
    commit: commitOf(fileURLToPath(checkout)),
    cpu: cpus()[0]?.model.trim() ?? 'unknown processor',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${process.platform} ${process.arch}`,
    node: process.version,
    loadAverage: loadavg()[0] ?? 0,
  };
}

function commitOf(cwd: string): string | null {
  const git = (...args: string[]) => spawnSync('git', args, { cwd, encoding: 'utf8' });
  const head = git('rev-parse', '--short', 'HEAD');
  if (head.status !== 0) return null;
  return `${head.stdout.trim()}${git('status', '--porcelain').stdout.trim() === '' ? '' : '+'}`;
}
