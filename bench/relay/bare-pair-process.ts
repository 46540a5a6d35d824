/**
 * Two of these are what the relay is measured against: servers of node:http that do nothing. The one
 * that knows a peer makes a bare request to it for whoever asks at `/there`, and tells how long that
 * took; at `/here` it answers by itself.
 */
import { Agent, createServer, request, type IncomingMessage } from 'node:http';
import { announcePort } from '../processes/announce.ts';

const [peer] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true });
const REPLY = Buffer.from(
  JSON.stringify({ jsonrpc: '2.0', id: 1, result: { content: [{ type: 'text', text: 'pong' }] } }),
);

const server = createServer((incoming, response) => {
  void (async () => {
    const body = await bytesOf(incoming);
    if (peer === undefined || incoming.url !== '/there') {
      response.writeHead(200, { 'content-type': 'application/json' }).end(REPLY);
      return;
    }
    const startedAt = performance.now();
    const reply = await exchange(peer, body);
    response.setHeader('exchange-ms', performance.now() - startedAt);
    response.writeHead(200, { 'content-type': 'application/json' }).end(reply);
  })().catch(() => response.destroy());
});

/** One request and its whole reply, over a connection that is kept. */
async function exchange(url: string, body: Buffer): Promise<Buffer> {
  const incoming = await new Promise<IncomingMessage>((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': body.byteLength };
    request(url, { agent, method: 'POST', headers }, resolve).on('error', reject).end(body);
  });
  return bytesOf(incoming);
}

async function bytesOf(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

server.keepAliveTimeout = 0;
server.requestTimeout = 0;
server.listen(0, '127.0.0.1', () => announcePort(server));
