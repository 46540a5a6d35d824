/** A program started as a child process, waited for until it says that it is ready, and stopped for certain. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { isJsonObject, type JsonObject } from '../src/protocol/json.ts';

export interface Program {
  readonly name: string;
  /** What Node.js runs: a script and its arguments. */
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Called with each line that the program writes, on either output. */
  readonly onLine?: (line: string) => void;
}

export interface Running<Ready> {
  /** What was read from the line that said "ready". */
  readonly ready: Ready;
  /** Resolves when the program has ended, whoever ended it. */
  readonly ended: Promise<void>;
  /** Asks the program to end, and insists when it does not; resolves when it has ended. */
  stop(): Promise<void>;
}

const START_MS = 60_000;
const STOP_MS = 5_000;

/**
 * Starts a program; resolves when `read` returns something for a line that it writes.
 * @throws Error with what the program wrote, when it ends before that or takes longer than 60 s
 */
export async function startProgram<Ready>(
  { name, args, env, onLine }: Program,
  read: (line: string) => Ready | null,
): Promise<Running<Ready>> {
  const child = spawn(process.execPath, [...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  // Whatever ends the demo must not leave servers behind.
  const killWithUs = () => child.kill('SIGKILL');
  process.once('exit', killWithUs);
  const ended = once(child, 'close').then(() => void process.off('exit', killWithUs));
  const written: string[] = [];
  const ready = await new Promise<Ready>((resolve, reject) => {
    const fail = (problem: string) =>
      reject(new Error([`${name} ${problem}:`, ...inPlainWords(written)].join('\n  ')));
    const timer = setTimeout(() => {
      fail(`was not ready after ${START_MS / 1000} s`);
      child.kill('SIGKILL');
    }, START_MS);
    for (const input of [child.stdout, child.stderr]) {
      createInterface({ input }).on('line', (line) => {
        if (written.length < 50) written.push(line);
        onLine?.(line);
        const found = read(line);
        if (found !== null) {
          clearTimeout(timer);
          resolve(found);
        }
      });
    }
    void ended.then(() => {
      clearTimeout(timer);
      fail('ended');
    });
  });
  return { ready, ended, stop: () => stop(child, ended) };
}

/** Only why the gateway does not start, or what is no line of a JSON log, where there is either. */
function inPlainWords(lines: readonly string[]): readonly string[] {
  const problems = lines.flatMap((line) => {
    const { event, problem } = logLine(line);
    return event === 'gateway.start_failed' && typeof problem === 'string' ? [problem] : [];
  });
  if (problems.length > 0) return problems;
  const plain = lines.filter((line) => !line.startsWith('{'));
  return plain.length > 0 ? plain : lines;
}

/** Reads a line of a JSON log. @returns an empty object for any other line */
export function logLine(line: string): JsonObject {
  try {
    const parsed: unknown = JSON.parse(line);
    return isJsonObject(parsed) ? parsed : {};
  } catch {
    return {};
  }
}

async function stop(child: ChildProcess, ended: Promise<void>): Promise<void> {
  child.kill('SIGTERM');
  const insist = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await ended;
  clearTimeout(insist);
}
