/**
 * The least that can put a server over stdio behind HTTP: node:http reads a request whole, the message goes to the pipe of the server under
 * an id of its own, and its reply is written at once. Nothing is checked, and nothing else is parsed.
 */
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { legacyInitialize } from '../clients/messages.ts';
import { announcePort } from '../processes/announce.ts';

interface Message {
  readonly id: number;
}

const [command, ...args] = process.argv.slice(2);
if (command === undefined) throw new Error('no command was given');
const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'] });
process.once('exit', () => child.kill('SIGKILL'));

const waiting = new Map<number, (reply: Message) => void>();
createInterface({ input: child.stdout }).on('line', (line) => {
  const reply = JSON.parse(line) as Message;
  waiting.get(reply.id)?.(reply);
  waiting.delete(reply.id);
});
let messages = 0;

function send(message: Message, then: (reply: Message) => void): void {
  messages += 1;
  waiting.set(messages, then);
  child.stdin.write(`${JSON.stringify({ ...message, id: messages })}\n`);
}

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const message = JSON.parse(Buffer.concat(chunks).toString()) as Message;
    send(message, (reply) => {
      const body = Buffer.from(JSON.stringify({ ...reply, id: message.id }));
      response.writeHead(200, {
        'content-type': 'application/json',
        'content-length': body.length,
      });
      response.end(body);
    });
  });
});
send(JSON.parse(legacyInitialize().body) as Message, () => {
  server.listen(0, '127.0.0.1', () => {
    announcePort(server);
  });
});
