/** A modern client, with `node:http` and nothing else. */
import http, { type IncomingMessage } from 'node:http';
import { simulation } from '../engine/simulation.ts';
import type { DialectName } from '../../../src/dialects/dialects.ts';
import { pathOf, readIn, writeIn } from './clients/dialects.ts';
import { bearerOf, renewToken } from './tokens.ts';

export interface Response {
  readonly id?: number;
  readonly error?: {
    readonly message: string;
    readonly data?: {
      readonly reason?: string;
      readonly retryable?: boolean;
      readonly mayHaveActed?: MayHaveActed;
    };
  };
  readonly result?: {
    readonly inputRequests?: Questions;
    readonly requestState?: string;
    readonly resultType?: string;
    readonly taskId?: string;
    /** Of a task. */
    readonly status?: 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled';
    readonly error?: Response['error'];
    readonly result?: Response['result'];
    readonly isError?: boolean;
    readonly content?: readonly { readonly text?: string }[];
    readonly tools?: readonly { readonly description?: string }[];
    readonly instructions?: string;
    readonly _meta?: Readonly<Record<string, unknown>>;
  };
}

export type MayHaveActed = 'no' | 'unknown' | 'yes';

/** No response came, or none that is whole. */
export interface Broken {
  readonly type: 'broken';
  readonly how: string;
}

/** What became of a request. */
export type Outcome =
  | Broken
  | {
      readonly type: 'failed';
      readonly reason: string;
      readonly mayHaveActed: MayHaveActed | undefined;
      /** Whether the call goes on with the same retry. */
      readonly isRetryable: boolean;
    }
  /** Without questions: the call goes on, and the client comes again. */
  | { readonly type: 'asks'; readonly questions: Questions; readonly state: string | undefined }
  /** The call is a task. */
  | { readonly type: 'task'; readonly taskId: string }
  | { readonly type: 'done'; readonly text: string; readonly session?: string };

export type Questions = Readonly<Record<string, { readonly params: QuestionParams }>>;

interface QuestionParams {
  readonly message: string;
  readonly _meta?: { readonly 'openai/elicitation'?: { readonly requestedSchema?: object } };
}

export interface ModernRequest {
  readonly caller: string;
  /** Another token than that of the caller. */
  readonly token?: string;
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>> & {
    readonly name?: string;
    readonly taskId?: string;
  };
  /** Whether the call may become a task. */
  readonly isTask?: boolean;
  /** Whether the client shows forms of OpenAI's extension. */
  readonly showsForms?: boolean;
  /** The wire, if it is not that of the final revision. */
  readonly dialect?: DialectName | null;
  /** Of a dialect: the id of what the client declared. Otherwise it declares it in each request. */
  readonly session?: string;
  /** Of a dialect: the answers of earlier rounds. */
  readonly given?: Readonly<Record<string, unknown>>;
  /** Whether the client wants the messages that the server logs. */
  readonly wantsLog?: boolean;
  /** Whether the client reads the response slowly. */
  readonly readsSlowly?: boolean;
  /** Called with what the server has logged, as it is in the response. */
  readonly onLogged?: (data: string) => void;
}

/** How a request broke that the client gave up. */
export const TOO_LATE = 'timeout';
/** The reason of a request that was refused for its credentials, which can come again with others. */
const REFUSED = 'HTTP 401';
/** The reason if the server refuses the credentials after the response has begun. */
const REFUSED_LATE = 'unauthorized';

/** Whether a retry can bring other credentials. */
export function isRefusal(reason: string): boolean {
  return reason === REFUSED || reason === REFUSED_LATE;
}

/** The keys of the issuer cannot be read now. */
const UNAVAILABLE = 503;
const PROTOCOL = '2026-07-28';
const META = {
  'io.modelcontextprotocol/protocolVersion': PROTOCOL,
  'io.modelcontextprotocol/clientInfo': { name: 'simulated', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } },
  progressToken: 'progress',
};
const TASK_META = {
  ...META,
  'io.modelcontextprotocol/clientCapabilities': {
    elicitation: { form: {} },
    extensions: { 'io.modelcontextprotocol/tasks': {} },
  },
};
const SHOWS_FORMS = {
  'io.modelcontextprotocol/clientCapabilities': {
    elicitation: { form: {} },
    extensions: { 'openai/elicitation': { form: {} } },
  },
};
const LOGGED = /"method":"notifications\/message".*"data":"([^"]*)"/;
/** How long a slow reader rests after each piece. */
const REST_MS = 400;

/** @param untilMs when the client gives up, asked again when that time has come */
export function send(port: number, wanted: ModernRequest, untilMs: () => number): Promise<Outcome> {
  const { readsSlowly = false, dialect = null, onLogged = () => {} } = wanted;
  const path = dialect === null ? '/mcp' : pathOf(dialect);
  const exchange = {
    ...{ port, path, method: 'POST', headers: headersOf(wanted), untilMs },
    body: JSON.stringify(messageOf(wanted)),
  };
  return sendOverHttp(exchange, async (response) => {
    const outcome = await read(response, readsSlowly, dialect, onLogged);
    if (outcome.type === 'failed' && isRefusal(outcome.reason)) renewToken(wanted.caller);
    return outcome;
  });
}

interface HttpExchange {
  readonly port: number;
  readonly path: string;
  readonly method: string;
  readonly headers: http.OutgoingHttpHeaders;
  readonly body: string | undefined;
  /** When the client gives up, asked again when that time has come. */
  readonly untilMs: () => number;
  readonly onSent?: (request: http.ClientRequest) => void;
}

/** Sends a request on a connection of its own. @param receive makes the outcome of the response */
export function sendOverHttp<Received>(
  { port, path, method, headers, body, untilMs, onSent }: HttpExchange,
  receive: (response: IncomingMessage) => Received | Promise<Received>,
): Promise<Received | Broken> {
  return new Promise((resolve) => {
    let isOver = false;
    const finish = (outcome: Received | Broken) => {
      isOver = true;
      resolve(outcome);
    };
    const fail = (error: NodeJS.ErrnoException) =>
      finish({ type: 'broken', how: error.code ?? error.message });
    const take = async (response: IncomingMessage) => {
      try {
        finish(await receive(response));
      } catch (error) {
        fail(error as NodeJS.ErrnoException);
      }
    };
    const request = http.request(
      { agent: false, host: '127.0.0.1', port, path, method, headers },
      (response) => void take(response),
    );
    const giveUp = () => {
      if (isOver) return;
      if (simulation().nowMs < untilMs()) return simulation().at(untilMs(), giveUp);
      finish({ type: 'broken', how: TOO_LATE });
      request.destroy();
    };
    simulation().at(untilMs(), giveUp);
    request.on('error', fail);
    onSent?.(request);
    request.end(body);
  });
}

export function messageOf(request: ModernRequest): object {
  const { method, params, isTask = false, dialect = null, wantsLog = false } = request;
  const { showsForms = false } = request;
  if (dialect !== null) return writeIn(dialect, request);
  const level = wantsLog ? { 'io.modelcontextprotocol/logLevel': 'info' } : {};
  const _meta = { ...(isTask ? TASK_META : META), ...(showsForms && SHOWS_FORMS), ...level };
  return { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } };
}

export function headersOf({
  caller,
  token,
  method,
  params,
  dialect = null,
  session,
}: ModernRequest): Record<string, string> {
  const name = params.name ?? params.taskId;
  return {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    authorization: `Bearer ${token ?? bearerOf(caller)}`,
    ...(session !== undefined && { 'mcp-session-id': session }),
    ...(dialect === null && { 'mcp-protocol-version': PROTOCOL, 'mcp-method': method }),
    ...(dialect === null && name !== undefined && { 'mcp-name': name }),
  };
}

async function read(
  response: IncomingMessage,
  isSlow: boolean,
  dialect: DialectName | null,
  onLogged: (data: string) => void,
): Promise<Outcome> {
  let text = '';
  for await (const bytes of response) {
    text += String(bytes);
    if (isSlow) await simulation().sleep(REST_MS);
  }
  if (response.statusCode === 401) {
    const { mayHaveActed } = (JSON.parse(text) as Response).error?.data ?? {};
    return { type: 'failed', reason: REFUSED, mayHaveActed, isRetryable: true };
  }
  const isStream = String(response.headers['content-type']).startsWith('text/event-stream');
  const events = text.match(/^data: .+$/gm) ?? [];
  for (const event of isStream ? events : []) {
    const logged = LOGGED.exec(event)?.[1];
    if (logged !== undefined) onLogged(logged);
  }
  const last = isStream ? events.at(-1)?.slice('data: '.length) : text;
  if (last === undefined || last === '') {
    return { type: 'broken', how: `empty, ${response.statusCode}` };
  }
  const parsed = JSON.parse(last) as Response;
  const message = dialect === null ? parsed : readIn(dialect, parsed);
  const outcome = outcomeOf(message);
  const session = response.headers['mcp-session-id'];
  if (outcome.type === 'done' && typeof session === 'string') return { ...outcome, session };
  if (message.id !== undefined || outcome.type !== 'failed') return outcome;
  // The message was not read.
  return { ...outcome, isRetryable: response.statusCode === UNAVAILABLE };
}

function outcomeOf({ error, result = {} }: Omit<Response, 'id'>): Outcome {
  if (error !== undefined) {
    const { reason = error.message, retryable = false, mayHaveActed } = error.data ?? {};
    return { type: 'failed', reason, mayHaveActed, isRetryable: retryable };
  }
  const { resultType, taskId, status } = result;
  if (taskId !== undefined && status !== undefined) {
    if (status === 'completed' && result.result !== undefined) {
      return outcomeOf({ result: result.result });
    }
    if (status === 'failed' && result.error !== undefined) {
      return outcomeOf({ error: result.error });
    }
    if (status === 'cancelled') {
      return { type: 'failed', reason: status, mayHaveActed: 'unknown', isRetryable: false };
    }
    if (status === 'working' || resultType === 'task') return { type: 'task', taskId };
  }
  const { inputRequests, requestState, isError, _meta = {} } = result;
  if (inputRequests !== undefined || requestState !== undefined) {
    return { type: 'asks', questions: inputRequests ?? {}, state: requestState };
  }
  if (isError === true) {
    const reason = String(_meta['mrtr-gateway/reason']);
    const mayHaveActed = _meta['mrtr-gateway/mayHaveActed'] as MayHaveActed | undefined;
    return { type: 'failed', reason, mayHaveActed, isRetryable: false };
  }
  const { content = [], tools = [], instructions = '' } = result;
  const texts = [
    ...content.map(({ text }) => text),
    ...tools.map(({ description }) => description),
  ];
  return { type: 'done', text: [...texts, instructions].join('') };
}
