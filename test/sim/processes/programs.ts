/** Programs that run as real processes, and as simulated ones. */
import type { Program } from './process-model.ts';

export const MORE_THAN_FITS = 4 * 1024 * 1024;
const LATER_MS = 300;

export const PROGRAMS = {
  /** Says each line again, and ends when its input does. */
  echo: ({ stdin, stdout, exit }) => {
    stdin.on('data', (bytes) => stdout.write(bytes as Buffer));
    stdin.on('end', () => exit(0));
  },
  fails: ({ stdout, stderr, exit }) => {
    stdout.write('one\ntwo\nand no end');
    stderr.write('Error: it cannot go on\n', () => exit(3));
  },
  /** Goes on when its input has ended, and ends as it should after SIGTERM. */
  stays: (self) => {
    self.on('SIGTERM', () => self.stdout.write('asked to end\n', () => self.exit(0)));
    self.stdin.on('end', () => self.stdout.write('has no input\n'));
    self.stdin.resume();
    setInterval(() => {}, LATER_MS);
  },
  /** As long as nobody handles it, a signal ends a process. */
  'takes no care': ({ stdout }) => {
    stdout.write('here\n');
    setInterval(() => {}, LATER_MS);
  },
  'cannot be ended': ({ on, stdout }) => {
    on('SIGTERM', () => {});
    stdout.write('here\n');
    setInterval(() => {}, LATER_MS);
  },
  'reads late': ({ stdin, stdout }) => {
    let read = 0;
    stdout.write('here\n');
    setTimeout(() => {
      stdin.on('data', (bytes: Buffer) => {
        read += bytes.length;
        if (read === MORE_THAN_FITS) stdout.write('has read all\n');
      });
    }, LATER_MS);
  },
} satisfies Readonly<Record<string, Program>>;

export type ProgramName = keyof typeof PROGRAMS;
