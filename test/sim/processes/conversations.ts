/** What a gateway has with processes of servers over stdio: each runs with real processes and with simulated ones. */
import { fileURLToPath } from 'node:url';
import type { Clock } from '../../../src/lib/clock.ts';
import { ServerProcess } from '../../../src/upstream/transport/stdio/server-process.ts';
import { UNBOUNDED } from '../../../src/upstream/size-limits.ts';
import type { Conversation, Stage } from '../network/conversations.ts';
import { MORE_THAN_FITS, type ProgramName } from './programs.ts';

const LONG_ENOUGH_MS = 400;
/** Longer than a real process takes to start. */
const START_MS = 1_500;

/** Its own, since that of the program keeps its timers from one simulation to the next. */
const CLOCK: Clock = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  setTimer(afterMs, callback) {
    const timer = setTimeout(callback, afterMs);
    return { cancel: () => clearTimeout(timer) };
  },
};

interface Talk {
  readonly server: ServerProcess;
  /** Resolves when the process has written a line to its standard output. */
  readonly spoken: Promise<void>;
  /** Resolves when it has written this line. */
  readonly said: (line: string) => Promise<void>;
  readonly ended: Promise<void>;
  readonly stage: Stage;
}

function withProgram(name: ProgramName, talk: (talk: Talk) => Promise<void>): Conversation {
  return async (stage) => {
    const { note } = stage;
    const spoken = Promise.withResolvers<void>();
    const awaited = new Map<string, () => void>();
    const said = (line: string) => new Promise<void>((resolve) => awaited.set(line, resolve));
    const ended = Promise.withResolvers<void>();
    const program = fileURLToPath(new URL('program-process.ts', import.meta.url));
    const server = new ServerProcess({
      ...{ command: process.execPath, args: [program, name], env: {}, cwd: null },
      ...{ maxLineBytes: 1_000, held: UNBOUNDED, clock: CLOCK },
      onLine: (line) => {
        note('output', line);
        spoken.resolve();
        awaited.get(line)?.();
      },
      onDiscarded: () => note('output is discarded'),
      onError: (line) => note('error-output', line),
      onOutputEnd: () => note('output has ended'),
      onEnd: (end) => {
        note('end', JSON.stringify(end));
        ended.resolve();
      },
    });
    await talk({ server, spoken: spoken.promise, said, ended: ended.promise, stage });
    await server.end(true);
    await stage.wait(LONG_ENOUGH_MS);
  };
}

export const PROCESS_CONVERSATIONS: Readonly<Record<string, Conversation>> = {
  'a process answers, and ends when its input does': withProgram(
    'echo',
    async ({ server, spoken }) => {
      await server.write('hello\n');
      await spoken;
      await server.end();
    },
  ),
  'a process ends with an exit code, and a last line without an end': withProgram(
    'fails',
    ({ ended }) => ended,
  ),
  'what is written to a process that has ended is refused': withProgram(
    'fails',
    async ({ server, ended, stage }) => {
      await ended;
      await server.write('late\n').catch(() => stage.note('refused'));
    },
  ),
  'a process that goes on without input is asked to end': withProgram(
    'stays',
    async ({ server, stage }) => {
      await stage.wait(START_MS);
      await server.end();
    },
  ),
  'a signal ends a process that does not handle it': withProgram(
    'takes no care',
    async ({ server, spoken }) => {
      await spoken;
      await server.end(true);
    },
  ),
  'a process that cannot be ended is killed': withProgram(
    'cannot be ended',
    async ({ server, spoken }) => {
      await spoken;
      await server.end(true);
    },
  ),
  'who writes waits for a process that reads late, and nothing is lost': withProgram(
    'reads late',
    async ({ server, spoken, said, stage: { note } }) => {
      await spoken;
      const allRead = said('has read all');
      let isTaken = false;
      const written = server.write('x'.repeat(MORE_THAN_FITS)).then(() => (isTaken = true));
      await Promise.resolve();
      note('taken before anybody reads', isTaken, server.unreadBytes);
      await written;
      note('taken', server.unreadBytes);
      await allRead;
    },
  ),
  'a signal to a process that has ended reaches nobody': withProgram(
    'fails',
    async ({ server, ended, stage }) => {
      const pid = server.pid ?? 0;
      await ended;
      try {
        process.kill(-pid, 'SIGTERM');
      } catch (error) {
        stage.note((error as NodeJS.ErrnoException).code);
      }
    },
  ),
};
