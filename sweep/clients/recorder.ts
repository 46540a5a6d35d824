/** A proxy on loopback that keeps a copy of each JSON-RPC message between a client and the gateway, and changes nothing. */
import { once } from 'node:events';
import { createServer, request as ask, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { createParser } from 'eventsource-parser';
import { isJsonObject, type JsonObject } from '../../src/protocol/json.ts';

/** What passed, in its order. A request without a body, such as `DELETE`, has no message. */
export type Recorded =
  | { readonly from: 'client'; readonly verb: string; readonly message: JsonObject | null }
  | { readonly from: 'gateway'; readonly status: number; readonly message: JsonObject | null };

/** What is kept of one client; it needs a few hundred bytes for each message. */
const MAX_MESSAGES = 2_000;

export class Recorder implements AsyncDisposable {
  readonly record: Recorded[] = [];
  readonly url: string;
  readonly #server;

  private constructor(server: ReturnType<typeof createServer>, target: URL) {
    this.#server = server;
    const { port } = server.address() as AddressInfo;
    this.url = `http://127.0.0.1:${port}${target.pathname}`;
  }

  static async start(target: URL): Promise<Recorder> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const recorder = new Recorder(server, target);
    server.on('request', (request, response) => {
      recorder.#pass(request, response, target).catch(() => response.destroy());
    });
    return recorder;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  async #pass(request: IncomingMessage, response: ServerResponse, target: URL): Promise<void> {
    const { method: verb = 'GET', url = '/' } = request;
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    this.#keep(body.toString(), (message) => ({ from: 'client', verb, message }));
    const asked = ask(new URL(url, target), {
      method: verb,
      headers: { ...request.headers, host: target.host },
    });
    response.once('close', () => asked.destroy());
    asked.end(body);
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    const { statusCode: status = 0, headers } = answer;
    response.writeHead(status, headers);
    response.flushHeaders();
    const kept = (text: string) =>
      this.#keep(text, (message) => ({ from: 'gateway', status, message }));
    if (headers['content-type']?.startsWith('text/event-stream') === true) {
      const events = createParser({ onEvent: ({ data }) => kept(data) });
      answer.on('data', (chunk: Buffer) => events.feed(chunk.toString()));
    } else {
      let text = '';
      answer.on('data', (chunk: Buffer) => (text += chunk.toString()));
      answer.once('end', () => kept(text));
    }
    await pipeline(answer, response);
  }

  #keep(text: string, as: (message: JsonObject | null) => Recorded): void {
    if (this.record.length < MAX_MESSAGES) this.record.push(as(parsed(text)));
  }
}

function parsed(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}
