/** What happens to processes of servers over stdio. */
import { simulation } from '../engine/simulation.ts';
import type { Running } from '../processes/process-model.ts';
import type { FaultKind } from './faults.ts';

/** How a process ends that has failed. */
const FAILED = 1;
const LINES = 300;

/**
 * Lets a fault strike a process.
 * @param endAfter called with what ends a fault that lasts
 */
export function strikeProcess(
  kind: FaultKind,
  { name, stdout, stderr, exit }: Running,
  endAfter: (end: () => void) => void,
): void {
  switch (kind) {
    case 'process-dies':
      return exit(FAILED);
    case 'process-dies-in-line':
      stdout.write('{"jsonrpc":"2.0","id":');
      return exit(FAILED);
    case 'process-hangs':
      simulation().freeze(name);
      return endAfter(() => simulation().thaw(name));
    case 'process-writes-garbage':
      stdout.write(`no message\n{"level":"warn"}\n{"jsonrpc":\n[]\n\n${'x'.repeat(LINES)}\n`);
      return;
    default:
      for (let line = 0; line < LINES; line++) stderr.write(`line ${line}: an error\n`);
  }
}
