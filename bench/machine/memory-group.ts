/** A control group of Linux with a limit of memory, in which one process runs. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

interface Files {
  readonly limit: string;
  readonly swapLimit: string;
  /** The value of `swapLimit` that admits no swap, for this limit of memory. */
  readonly noSwap: (limitBytes: number) => number;
  readonly peak: string;
  readonly events: string;
}

const V1: Files = {
  limit: 'memory.limit_in_bytes',
  swapLimit: 'memory.memsw.limit_in_bytes',
  noSwap: (limitBytes) => limitBytes,
  peak: 'memory.max_usage_in_bytes',
  events: 'memory.oom_control',
};
const V2: Files = {
  limit: 'memory.max',
  swapLimit: 'memory.swap.max',
  noSwap: () => 0,
  peak: 'memory.peak',
  events: 'memory.events',
};

const MOUNT = '/sys/fs/cgroup';
const REMOVE_TRIES = 50;
const REMOVE_PAUSE_MS = 20;

export class MemoryGroup {
  readonly #path: string;
  readonly #files: Files;
  readonly #remove = () => this.remove();

  private constructor(path: string, files: Files) {
    this.#path = path;
    this.#files = files;
    process.once('exit', this.#remove);
  }

  /**
   * Makes a group below that of this process, or below the nearest one above it where that is possible.
   * @returns why it cannot be made, if so
   */
  static make(limitBytes: number): MemoryGroup | string {
    let problem = 'no control group of memory is mounted at /sys/fs/cgroup';
    for (const { path, files } of places()) {
      const group = join(path, `mrtr-gateway-bench-${process.pid}`);
      try {
        mkdirSync(group);
      } catch (error) {
        problem = `${group} cannot be made (${codeOf(error)})`;
        continue;
      }
      const made = new MemoryGroup(group, files);
      try {
        if (!existsSync(join(group, files.limit))) throw new Error('it does not limit memory');
        writeFileSync(join(group, files.limit), String(limitBytes));
        if (existsSync(join(group, files.swapLimit))) {
          writeFileSync(join(group, files.swapLimit), String(files.noSwap(limitBytes)));
        }
        return made;
      } catch (error) {
        problem = `${group} cannot be used (${codeOf(error)})`;
        made.remove();
      }
    }
    return problem;
  }

  /** The command that runs another one in the group, in the same process. */
  command(command: readonly string[]): readonly [string, ...string[]] {
    const enter = 'echo $$ > "$0" && exec "$@"';
    return ['/bin/sh', '-c', enter, join(this.#path, 'cgroup.procs'), ...command];
  }

  /** The most memory that was used, with what the kernel uses for the process; `null` if unknown. */
  peakBytes(): number | null {
    const value = Number(this.#read(this.#files.peak) ?? NaN);
    return Number.isFinite(value) ? value : null;
  }

  /** Whether the kernel killed a process because it needed more. */
  hasKilled(): boolean {
    const kills = /^oom_kill (\d+)$/m.exec(this.#read(this.#files.events) ?? '')?.[1];
    return Number(kills ?? 0) > 0;
  }

  /** Deletes the group; its process has ended. */
  remove(): void {
    process.off('exit', this.#remove);
    // A process that was killed a moment ago is still there for some ms. At exit nothing can be awaited.
    for (let tries = 0; tries < REMOVE_TRIES && existsSync(this.#path); tries += 1) {
      try {
        rmdirSync(this.#path);
      } catch {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, REMOVE_PAUSE_MS);
      }
    }
  }

  #read(file: string): string | null {
    try {
      return readFileSync(join(this.#path, file), 'utf8');
    } catch {
      return null;
    }
  }
}

/** The groups in which one may be made, from that of this process up to the root. */
function places(): { readonly path: string; readonly files: Files }[] {
  const lines = existsSync('/proc/self/cgroup')
    ? readFileSync('/proc/self/cgroup', 'utf8').trim().split('\n')
    : [];
  return lines.flatMap((line) => {
    const [, controllers = '', group = '/'] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers.split(',').includes('memory')) {
      return above(join(MOUNT, 'memory'), group).map((path) => ({ path, files: V1 }));
    }
    if (controllers !== '') return [];
    const root = existsSync(join(MOUNT, 'unified')) ? join(MOUNT, 'unified') : MOUNT;
    return above(root, group).map((path) => ({ path, files: V2 }));
  });
}

function above(root: string, group: string): string[] {
  const path = join(root, group);
  const own = existsSync(path) ? [path] : [];
  return group === '/' ? own : [...own, ...above(root, dirname(group))];
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return (error as NodeJS.ErrnoException).code ?? error.message;
}
