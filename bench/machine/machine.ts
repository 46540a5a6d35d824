/** What a reader must know of the machine to read its numbers; nothing that names it. */
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly system: string;
  readonly node: string;
  /** Of the last minute, before the run: what else the machine was doing. */
  readonly loadAverage: number;
}

export function describeMachine(): Machine {
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown processor',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${process.platform} ${process.arch}`,
    node: process.version,
    loadAverage: loadavg()[0] ?? 0,
  };
}
