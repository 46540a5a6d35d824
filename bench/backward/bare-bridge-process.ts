/**
 * The least that a bridge of this gateway's parts can do for legacy clients: node:http reads the requests of one session, undici's
 * `dispatch` sends each call, and again with the answer. Nothing is checked, sealed, limited or logged.
 */
import { createServer, type ServerResponse } from 'node:http';
import { Pool } from 'undici';
import { announcePort } from '../processes/announce.ts';

const [upstream] = process.argv.slice(2);
if (upstream === undefined) throw new Error('no upstream was given');
const url = new URL(upstream);
const pool = new Pool(url.origin, { pipelining: 1 });

interface Message {
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: Record<string, unknown>;
}

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1.0.0' },
  'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } },
};
const GREETING = {
  protocolVersion: '2025-11-25',
  serverInfo: { name: 'bench', version: '1.0.0' },
  capabilities: { tools: {} },
};
const questions = new Map<number | string, (answer: unknown) => void>();
let asked = 0;

const server = createServer((request, response) => {
  if (request.method !== 'POST') return void response.writeHead(405).end();
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    serve(JSON.parse(Buffer.concat(chunks).toString()) as Message, response);
  });
});
server.listen(0, '127.0.0.1', () => {
  announcePort(server);
});

function serve(message: Message, response: ServerResponse): void {
  const { id, method, params = {} } = message;
  if (method === 'initialize') {
    response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 'bench' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result: GREETING }));
  } else if (method === 'tools/call') {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    call(id, params, {}, response);
  } else {
    if (id !== undefined && method === undefined) questions.get(id)?.(message.result);
    response.writeHead(202).end();
  }
}

function call(
  id: Message['id'],
  params: Record<string, unknown>,
  retry: Record<string, unknown>,
  response: ServerResponse,
): void {
  post({ ...params, _meta: META, ...retry }, String(params['name']), (result) => {
    if (result['resultType'] !== 'input_required') {
      return void response.end(event({ jsonrpc: '2.0', id, result }));
    }
    const requests = Object.entries(result['inputRequests'] as Record<string, object>);
    const [[key, question] = ['', {}]] = requests;
    asked += 1;
    questions.set(asked, (answer) => {
      const { requestState } = result;
      const answers = { inputResponses: { [key]: answer } };
      call(
        id,
        params,
        { ...answers, ...(requestState !== undefined && { requestState }) },
        response,
      );
    });
    response.write(event({ jsonrpc: '2.0', id: asked, ...question }));
  });
}

const event = (message: unknown) => `event: message\ndata: ${JSON.stringify(message)}\n\n`;

function post(
  params: Record<string, unknown>,
  name: string,
  then: (result: Record<string, unknown>) => void,
): void {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': name,
  };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
  const chunks: Buffer[] = [];
  pool.dispatch(
    { path: url.pathname, method: 'POST', headers, body },
    {
      onRequestStart: () => undefined,
      onResponseStart: () => undefined,
      onResponseData: (_controller, chunk) => {
        chunks.push(chunk);
      },
      onResponseEnd: () => {
        const text = Buffer.concat(chunks).toString();
        const json = text.startsWith('{') ? text : text.slice(text.indexOf('{'));
        then((JSON.parse(json) as { result: Record<string, unknown> }).result);
      },
      onResponseError: (_controller, error) => {
        throw error;
      },
    },
  );
}
