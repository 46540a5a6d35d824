/** The listener of a simulated server, whatever it speaks. */
import http, { type IncomingMessage } from 'node:http';
import { simulation } from '../../engine/simulation.ts';
import { HttpSseServer } from './http-sse.ts';
import { ModernServer } from './modern-server.ts';
import { callerOf, peerOf, type Requests } from './requests.ts';
import { SdkServer } from './sdk-server.ts';
import type { Message, ServerOptions } from './sessions.ts';
import { StreamableHttpServer } from './streamable-http.ts';

/** Listens at `port`, as the process that calls it. */
export function startServer(port: number, options: ServerOptions): Requests {
  const { forgetsAtMs } = options.traits;
  const requests = requestsOf(options);
  const server = http.createServer((request, response) => {
    response.on('error', () => {});
    void bodyOf(request).then((text) => {
      if (text === null) return;
      if (options.takesTokens && callerOf(request) === 'nobody') {
        options.journal.note('refused', '', { session: '', by: peerOf(response) });
        const challenge = { 'www-authenticate': 'Bearer error="invalid_token"' };
        return void response.writeHead(401, challenge).end();
      }
      requests.serve(request, response, (text === '' ? {} : JSON.parse(text)) as Message);
    });
  });
  // They compare with the clock of the machine.
  Object.assign(server, { requestTimeout: 0, headersTimeout: 0 });
  server.listen(port, '127.0.0.1');
  if (forgetsAtMs !== null) simulation().after(forgetsAtMs, () => requests.forget());
  return requests;
}

function requestsOf(options: ServerOptions): Requests {
  const { transport, sdk } = options.traits;
  if (sdk !== null) return new SdkServer(options);
  if (transport === 'modern') return new ModernServer(options);
  return transport === 'http-sse' ? new HttpSseServer(options) : new StreamableHttpServer(options);
}

/** @returns `null` if the request breaks off */
async function bodyOf(request: IncomingMessage): Promise<string | null> {
  try {
    let text = '';
    request.setEncoding('utf8');
    for await (const part of request) text += String(part);
    return text;
  } catch {
    return null;
  }
}
