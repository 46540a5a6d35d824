/** Programs that run as real forked processes, and as simulated ones. Run as a file, this is such a process. */
import type { Socket } from 'node:net';
import type { ForkedSelf } from './fork-model.ts';

type Program = (self: ForkedSelf) => void;

export const FORKED_PROGRAMS = {
  /** Says again what it hears, until the channel is closed. */
  echo: ({ onMessage, onClose, send, exit }) => {
    onMessage((message) => send({ heard: message }));
    onClose(() => exit(0));
  },
  /** Says something on the socket that it gets. */
  serves: ({ onMessage, onClose, exit }) => {
    onMessage((_message, socket) => socket?.end('served'));
    onClose(() => exit(0));
  },
  fails: ({ send, exit }) => {
    send('one');
    send('two');
    exit(3);
  },
} satisfies Readonly<Record<string, Program>>;

export type ForkedProgramName = keyof typeof FORKED_PROGRAMS;

if (process.send !== undefined && import.meta.main) {
  const sent: Promise<void>[] = [];
  const [name = ''] = process.argv.slice(2);
  FORKED_PROGRAMS[name as ForkedProgramName]({
    onMessage: (listener) =>
      process.on('message', (message, socket) => listener(message, socket as Socket | undefined)),
    onClose: (listener) => process.on('disconnect', listener),
    send: (message) =>
      sent.push(new Promise((resolve) => process.send?.(message, () => resolve()))),
    exit: (code) => void Promise.all(sent).then(() => process.exit(code)),
  });
}
