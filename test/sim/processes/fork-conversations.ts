/** What a primary has with its workers: each runs with real forked processes and with simulated ones. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Conversation, Stage } from '../network/conversations.ts';
import type { ForkedProgramName } from './forked-programs.ts';

const PROGRAM = fileURLToPath(new URL('forked-programs.ts', import.meta.url));

function withForked(
  name: ForkedProgramName,
  talk: (child: ChildProcess, stage: Stage) => Promise<unknown>,
): Conversation {
  return async (stage) => {
    const child = fork(PROGRAM, [name], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const ended = once(child, 'exit');
    child.on('message', (message) => stage.note('output', JSON.stringify(message)));
    child.on('disconnect', () => stage.note('is disconnected'));
    await talk(child, stage);
    const [code, signal] = (await ended) as [number | null, string | null];
    stage.note('end', code, signal, child.connected);
  };
}

export const FORK_CONVERSATIONS: Readonly<Record<string, Conversation>> = {
  'a forked process hears messages in their order, and its answers come in theirs': withForked(
    'echo',
    async (child) => {
      const last = new Promise<void>((resolve) => {
        child.on('message', (message) => {
          if (JSON.stringify(message).includes('last')) resolve();
        });
      });
      for (const message of [{ a: [1, null] }, 'two', { at: undefined }, 'last']) {
        child.send(message, () => {});
      }
      await last;
      child.disconnect();
    },
  ),
  'a forked process that is killed is disconnected': withForked('echo', async (child) => {
    child.send('hello', () => {});
    await once(child, 'message');
    child.kill('SIGKILL');
  }),
  'a forked process serves the connection that it is given': withForked(
    'serves',
    async (child, { note }) => {
      const listener = net.createServer({ pauseOnConnect: true });
      await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
      const { port } = listener.address() as AddressInfo;
      const accepted = once(listener, 'connection');
      const client = net.connect(port, '127.0.0.1');
      let heard = '';
      client.on('data', (bytes) => (heard += String(bytes)));
      const [socket] = (await accepted) as [net.Socket];
      child.send('take it', socket, { keepOpen: true }, () => socket.destroy());
      await once(client, 'end');
      note('client', heard);
      listener.close();
      child.disconnect();
    },
  ),
  'a forked process ends with an exit code, after what it has sent': withForked('fails', (child) =>
    once(child, 'disconnect'),
  ),
};
