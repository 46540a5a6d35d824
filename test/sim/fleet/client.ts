/** A modern client, with `node:http` and nothing else. */
import http, { type IncomingMessage } from 'node:http';
import { simulation } from '../engine/simulation.ts';

export interface ModernError {
  readonly message: string;
  readonly data?: {
    readonly reason?: string;
    readonly retryable?: boolean;
    readonly mayHaveActed?: boolean;
  };
}

export interface ModernResponse {
  readonly error?: ModernError;
  readonly result?: {
    readonly inputRequests?: Readonly<Record<string, unknown>>;
    readonly requestState?: string;
  };
}

/** The response, or how the request broke. */
export type Outcome = { readonly response: ModernResponse } | { readonly broken: string };

/** How a request broke that the client gave up. */
export const TOO_LATE = 'timeout';
const PROTOCOL = '2026-07-28';
const META = {
  'io.modelcontextprotocol/protocolVersion': PROTOCOL,
  'io.modelcontextprotocol/clientInfo': { name: 'simulated', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } },
};

/** @param untilMs when the client gives up, asked again when that time has come */
export function callTool(
  port: number,
  caller: string,
  params: Readonly<Record<string, unknown>> & { readonly name: string },
  untilMs: () => number,
): Promise<Outcome> {
  const message = {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { ...params, _meta: META },
  };
  return new Promise((resolve) => {
    let isOver = false;
    const finish = (outcome: Outcome) => {
      isOver = true;
      resolve(outcome);
    };
    const fail = (error: NodeJS.ErrnoException) => finish({ broken: error.code ?? error.message });
    const request = http.request(
      {
        agent: false,
        host: '127.0.0.1',
        port,
        path: '/mcp',
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': PROTOCOL,
          'mcp-method': 'tools/call',
          'mcp-name': params.name,
          authorization: `Bearer ${caller}`,
        },
      },
      (response) => void read(response).then(finish, fail),
    );
    const giveUp = () => {
      if (isOver) return;
      if (simulation().nowMs < untilMs()) return simulation().at(untilMs(), giveUp);
      finish({ broken: TOO_LATE });
      request.destroy();
    };
    simulation().at(untilMs(), giveUp);
    request.on('error', fail);
    request.end(JSON.stringify(message));
  });
}

async function read(response: IncomingMessage): Promise<Outcome> {
  let text = '';
  for await (const bytes of response) text += String(bytes);
  const isStream = String(response.headers['content-type']).startsWith('text/event-stream');
  const last = isStream
    ? text
        .match(/^data: .+$/gm)
        ?.at(-1)
        ?.slice('data: '.length)
    : text;
  if (last === undefined || last === '') return { broken: `empty, ${response.statusCode}` };
  return { response: JSON.parse(last) as ModernResponse };
}
