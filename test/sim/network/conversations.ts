/** Conversations of sockets that run over the kernel and over the model: both ends must see the same. */
import { once } from 'node:events';
import http from 'node:http';
import net, { type AddressInfo, type Socket } from 'node:net';

export interface Stage {
  note(...seen: unknown[]): void;
  wait(ms: number): Promise<void>;
}

export type Conversation = (stage: Stage) => Promise<void>;
type Talk = (client: Socket, server: Socket, stage: Stage) => Promise<void> | void;

const LONG_ENOUGH_MS = 60;
const SOME_THAT_FITS = 128 * 1024;
/** More than two kernels keep for one connection. */
const MORE_THAN_FITS = 32 * 1024 * 1024;

function pair(talk: Talk, { halfOpen = false, paused = false } = {}): Conversation {
  return async (stage) => {
    const listener = net.createServer({ allowHalfOpen: halfOpen });
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    const accepted = new Promise<Socket>((resolve) => listener.once('connection', resolve));
    const client = net.connect((listener.address() as AddressInfo).port, '127.0.0.1');
    const server = await accepted;
    await stage.wait(LONG_ENOUGH_MS);
    for (const [name, socket] of [
      ['client', client],
      ['server', server],
    ] as const) {
      socket.on('error', (error: NodeJS.ErrnoException) => stage.note(name, 'error', error.code));
      socket.on('end', () => stage.note(name, 'end'));
      socket.on('finish', () => stage.note(name, 'finish'));
      socket.on('close', (hadError) => stage.note(name, 'close', hadError));
      if (!paused || name === 'client') socket.resume();
    }
    await talk(client, server, stage);
    await stage.wait(LONG_ENOUGH_MS);
    client.destroy();
    server.destroy();
    listener.close();
    await stage.wait(LONG_ENOUGH_MS);
  };
}

function request(serve: http.RequestListener): Conversation {
  return async (stage) => {
    const server = http.createServer(serve);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const sent = http.get({ port, host: '127.0.0.1', agent: false }, (response) => {
      let text = '';
      response.on('data', (bytes: Buffer) => (text += String(bytes)));
      response.on('close', () => stage.note('data', text));
      response.on('error', (error: NodeJS.ErrnoException) => stage.note('broken', error.code));
      response.on('end', () => stage.note('end'));
    });
    sent.on('error', (error: NodeJS.ErrnoException) => stage.note('error', error.code));
    await stage.wait(LONG_ENOUGH_MS);
    sent.destroy();
    server.closeAllConnections();
    server.close();
    await stage.wait(LONG_ENOUGH_MS);
  };
}

/** Listens at a port, as one of several processes if it `shares` it. @returns the port, or the code of an error */
function listenAt(server: net.Server, port: number, reusePort: boolean): Promise<number | string> {
  return new Promise((resolve) => {
    server.once('error', ({ code = '' }: NodeJS.ErrnoException) => resolve(code));
    server.listen({ port, host: '127.0.0.1', reusePort }, () => {
      resolve((server.address() as AddressInfo).port);
    });
  });
}

export const CONVERSATIONS: Readonly<Record<string, Conversation>> = {
  'several listen at one port if each of them says so': async ({ note, wait }) => {
    const [first, second, third] = [net.createServer(), net.createServer(), net.createServer()];
    const port = Number(await listenAt(first, 0, true));
    note('second', (await listenAt(second, port, true)) === port);
    note('third', await listenAt(third, port, false));
    const served = [first, second].map((server) => once(server, 'connection'));
    const client = net.connect(port, '127.0.0.1');
    const [socket] = (await Promise.race(served)) as [Socket];
    note('is served');
    for (const end of [client, socket]) end.destroy();
    for (const server of [first, second]) server.close();
    await wait(LONG_ENOUGH_MS);
  },
  'a connection to a port that nobody has is refused': async ({ note, wait }) => {
    const client = net.connect(9, '127.0.0.1');
    client.on('error', (error: NodeJS.ErrnoException) => note(error.code));
    client.on('close', (hadError) => note('close', hadError));
    await wait(LONG_ENOUGH_MS);
  },
  'an end is answered by an end': pair((client) => void client.end('bye')),
  'one half stays open': pair(
    async (client, server, { note, wait }) => {
      client.end('bye');
      await wait(LONG_ENOUGH_MS);
      note(server.writable, client.readable);
      server.end('late');
    },
    { halfOpen: true },
  ),
  'a paused socket that has read what came still ends, without a reset': pair(
    async (client, server, { wait }) => {
      client.write('unread');
      await wait(LONG_ENOUGH_MS);
      server.destroy();
    },
    { paused: true },
  ),
  'who writes waits for a slow reader, and nothing is lost': pair(
    async (client, server, { note, wait }) => {
      let read = 0;
      const all = new Promise<void>((resolve) => {
        server.on('data', (bytes: Buffer) => {
          read += bytes.length;
          if (read === MORE_THAN_FITS) resolve();
        });
      });
      server.pause();
      let isSent = false;
      client.write(Buffer.alloc(MORE_THAN_FITS), () => (isSent = true));
      await wait(LONG_ENOUGH_MS);
      note('sent while nobody reads', isSent);
      server.resume();
      await all;
      await wait(LONG_ENOUGH_MS);
      note('sent', isSent, read);
    },
    { paused: true },
  ),
  'who writes more than fits to one that has closed is told': pair(
    async (client, server, { wait }) => {
      client.destroy();
      await wait(LONG_ENOUGH_MS);
      server.end(Buffer.alloc(MORE_THAN_FITS));
    },
    { halfOpen: true },
  ),
  'who writes more than fits, and reads nothing, is told of a reset': pair(
    async (client, server, { wait }) => {
      client.pause();
      client.write(Buffer.alloc(SOME_THAT_FITS));
      server.end(Buffer.alloc(MORE_THAN_FITS));
      await wait(LONG_ENOUGH_MS);
      client.resetAndDestroy();
    },
    { paused: true },
  ),
  'a reset is seen as one': pair((client) => void client.resetAndDestroy()),
  'a silent socket times out': pair(async (client, server, { note }) => {
    server.setTimeout(20, () => {
      note('timeout');
      server.destroy();
    });
    await once(client, 'close');
  }),
  'a response comes whole': request((_request, response) => void response.end('all of it')),
  'a response breaks in the middle': request((_request, response) => {
    response.writeHead(200);
    response.write('part');
    setTimeout(() => response.destroy(), 10);
  }),
  'a server resets before it responds': request(
    (incoming) => void incoming.socket.resetAndDestroy(),
  ),
  'a server closes before it responds': request((incoming) => void incoming.socket.destroy()),
};
