/** Control groups of Linux: made below that of this process, or below the nearest one above it where that is possible. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The layout of the files: each controller mounted by itself, or all in one tree. */
type Version = 1 | 2;

const MOUNT = '/sys/fs/cgroup';
const REMOVE_TRIES = 50;
const REMOVE_PAUSE_MS = 20;

/** Groups that are not deleted yet. */
const groups = new Set<ControlGroup>();
process.once('exit', () => {
  for (const group of groups) group.remove();
});
let made = 0;

export class ControlGroup {
  readonly version: Version;
  readonly #path: string;

  private constructor(path: string, version: Version) {
    this.#path = path;
    this.version = version;
    groups.add(this);
  }

  /**
   * Makes a group.
   * @param limit writes its limits; throws if it cannot
   * @returns why it cannot be made, if so
   */
  static make(
    controller: 'cpu' | 'memory',
    limit: (group: ControlGroup) => void,
  ): ControlGroup | string {
    let problem = `no control group of ${controller} is mounted at ${MOUNT}`;
    for (const { path, version } of places(controller)) {
      const name = join(path, `mrtr-gateway-bench-${process.pid}-${(made += 1)}`);
      try {
        mkdirSync(name);
      } catch (error) {
        problem = `${name} cannot be made (${codeOf(error)})`;
        continue;
      }
      const group = new ControlGroup(name, version);
      try {
        limit(group);
        return group;
      } catch (error) {
        problem = `${name} cannot be used (${codeOf(error)})`;
        group.remove();
      }
    }
    return problem;
  }

  has(file: string): boolean {
    return existsSync(join(this.#path, file));
  }

  /** Writes a file of the group, which has to be there. */
  write(file: string, value: string | number): void {
    if (!this.has(file)) throw new Error(`it has no ${file}`);
    writeFileSync(join(this.#path, file), String(value));
  }

  /** @returns `null` if it cannot be read */
  read(file: string): string | null {
    try {
      return readFileSync(join(this.#path, file), 'utf8');
    } catch {
      return null;
    }
  }

  /** Moves a process into the group. */
  add(pid: number): void {
    this.write('cgroup.procs', pid);
  }

  /** The command that runs another one in the group, in the same process. */
  command(command: readonly string[]): readonly [string, ...string[]] {
    const enter = 'echo $$ > "$0" && exec "$@"';
    return ['/bin/sh', '-c', enter, join(this.#path, 'cgroup.procs'), ...command];
  }

  /** Deletes the group; its processes have ended. */
  remove(): void {
    groups.delete(this);
    // A process that was killed a moment ago is still there for some ms. At exit nothing can be awaited.
    for (let tries = 0; tries < REMOVE_TRIES && existsSync(this.#path); tries += 1) {
      try {
        rmdirSync(this.#path);
      } catch {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, REMOVE_PAUSE_MS);
      }
    }
  }
}

interface Place {
  readonly path: string;
  readonly version: Version;
}

/** The groups in which one may be made, from that of this process up to the root. */
function places(controller: string): Place[] {
  const lines = existsSync('/proc/self/cgroup')
    ? readFileSync('/proc/self/cgroup', 'utf8').trim().split('\n')
    : [];
  return lines.flatMap((line): Place[] => {
    const [, controllers = '', group = '/'] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers.split(',').includes(controller)) {
      return above(join(MOUNT, controller), group).map((path) => ({ path, version: 1 }));
    }
    if (controllers !== '') return [];
    const root = existsSync(join(MOUNT, 'unified')) ? join(MOUNT, 'unified') : MOUNT;
    return above(root, group).map((path) => ({ path, version: 2 }));
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
