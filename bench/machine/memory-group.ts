/** A control group of Linux with a limit of memory, in which one process runs. */
import { ControlGroup } from './control-group.ts';

interface Files {
  readonly limit: string;
  readonly swapLimit: string;
  /** The value of `swapLimit` that admits no swap, for this limit of memory. */
  readonly noSwap: (limitBytes: number) => number;
  readonly peak: string;
  readonly events: string;
}

const FILES: Readonly<Record<ControlGroup['version'], Files>> = {
  1: {
    limit: 'memory.limit_in_bytes',
    swapLimit: 'memory.memsw.limit_in_bytes',
    noSwap: (limitBytes) => limitBytes,
    peak: 'memory.max_usage_in_bytes',
    events: 'memory.oom_control',
  },
  2: {
    limit: 'memory.max',
    swapLimit: 'memory.swap.max',
    noSwap: () => 0,
    peak: 'memory.peak',
    events: 'memory.events',
  },
};

export class MemoryGroup {
  readonly #group: ControlGroup;

  private constructor(group: ControlGroup) {
    this.#group = group;
  }

  /** @returns why it cannot be made, if so */
  static make(limitBytes: number): MemoryGroup | string {
    const group = ControlGroup.make('memory', (made) => {
      const { limit, swapLimit, noSwap } = FILES[made.version];
      made.write(limit, limitBytes);
      if (made.has(swapLimit)) made.write(swapLimit, noSwap(limitBytes));
    });
    return typeof group === 'string' ? group : new MemoryGroup(group);
  }

  /** The command that runs another one in the group, in the same process. */
  command(command: readonly string[]): readonly [string, ...string[]] {
    return this.#group.command(command);
  }

  /** The most memory that was used, with what the kernel uses for the process; `null` if unknown. */
  peakBytes(): number | null {
    const value = Number(this.#group.read(FILES[this.#group.version].peak) ?? NaN);
    return Number.isFinite(value) ? value : null;
  }

  /** Whether the kernel killed a process because it needed more. */
  hasKilled(): boolean {
    const events = this.#group.read(FILES[this.#group.version].events) ?? '';
    return Number(/^oom_kill (\d+)$/m.exec(events)?.[1] ?? 0) > 0;
  }

  /** Deletes the group; its process has ended. */
  remove(): void {
    this.#group.remove();
  }
}
