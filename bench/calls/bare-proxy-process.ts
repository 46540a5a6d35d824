/**
 * The least that a proxy of this gateway's parts can do: node:http reads the request whole, undici's `dispatch` sends it,
 * and the response is collected and written at once. Nothing is parsed or checked.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Pool } from 'undici';
import { announcePort } from '../processes/announce.ts';

const [upstream] = process.argv.slice(2);
if (upstream === undefined) throw new Error('no upstream was given');
const pool = new Pool(upstream, { pipelining: 1 });
const PASSED = ['content-type', 'accept', 'mcp-session-id', 'mcp-protocol-version'] as const;

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    forward(request, Buffer.concat(chunks), response);
  });
});
server.listen(0, '127.0.0.1', () => {
  announcePort(server);
});

function forward(request: IncomingMessage, body: Buffer, response: ServerResponse): void {
  const headers: string[] = [];
  for (const name of PASSED) {
    const value = request.headers[name];
    if (typeof value === 'string') headers.push(name, value);
  }
  const chunks: Buffer[] = [];
  let status = 502;
  let contentType = 'text/plain';
  pool.dispatch(
    { path: request.url ?? '/', method: 'POST', headers, body },
    {
      onRequestStart: () => undefined,
      onResponseStart: (_controller, statusCode, responseHeaders) => {
        status = statusCode;
        contentType = String(responseHeaders['content-type']);
      },
      onResponseData: (_controller, chunk) => {
        chunks.push(chunk);
      },
      onResponseEnd: () => {
        const whole = Buffer.concat(chunks);
        response.writeHead(status, { 'content-type': contentType, 'content-length': whole.length });
        response.end(whole);
      },
      onResponseError: () => {
        response.writeHead(502).end();
      },
    },
  );
}
