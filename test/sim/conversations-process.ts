/**
 * Runs all conversations, over the `kernel` or over the `model` with the seed given (`reversed`: the last first), and
 * prints what both ends saw.
 */
import { CONVERSATIONS, type Stage } from './network/conversations.ts';
import { PROCESS_CONVERSATIONS } from './processes/conversations.ts';
import { FORK_CONVERSATIONS } from './processes/fork-conversations.ts';
import { FORKED_PROGRAMS, type ForkedProgramName } from './processes/forked-programs.ts';
import { PROGRAMS, type ProgramName } from './processes/programs.ts';

const [where, seed = '1', order] = process.argv.slice(2);
const ALL = { ...CONVERSATIONS, ...PROCESS_CONVERSATIONS, ...FORK_CONVERSATIONS };

async function inKernel(): Promise<void> {
  const seen: Record<string, string[]> = {};
  for (const [title, talk] of Object.entries(ALL)) {
    await talk(stage((seen[title] = []), (ms) => new Promise((done) => setTimeout(done, ms))));
  }
  print({ seen });
}

async function inModel(): Promise<void> {
  const { Simulation } = await import('./engine/simulation.ts');
  await import('./engine/pins.ts');
  await import('./network/tcp-model.ts');
  const { forks } = await import('./processes/fork-model.ts');
  const { processes } = await import('./processes/process-model.ts');
  const { runInShell } = await import('./processes/shell.ts');
  setImmediate(() => {
    const seen: Record<string, string[]> = {};
    const digests: Record<string, string> = {};
    const talks = Object.entries(ALL);
    for (const [title, talk] of order === 'reversed' ? talks.reverse() : talks) {
      const simulated = new Simulation(`${seed}:${title}`);
      simulated.run(() => {
        processes().run = (start) =>
          runInShell(start, (_command, [, name = '']) => PROGRAMS[name as ProgramName]);
        forks().program = (self) => FORKED_PROGRAMS[self.args[0] as ForkedProgramName](self);
        return talk(stage((seen[title] = []), (ms) => simulated.sleep(ms)));
      });
      digests[title] = simulated.digest();
    }
    print({ seen, digests });
  });
}

function stage(lines: string[], wait: Stage['wait']): Stage {
  return { note: (...seen) => lines.push(seen.join(' ')), wait };
}

function print(result: unknown): void {
  process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
}

await (where === 'kernel' ? inKernel() : inModel());
