/**
 * A session of a legacy client with a server of 2026-07-28, which has no sessions: what the client says once goes with each
 * request, and what the server returns to be answered is asked. It is the other direction of the bridge.
 */
import { inBackground } from '../../lib/background.ts';
import type { Clock, Closed } from '../../lib/clock.ts';
import { randomId } from '../../lib/crypto.ts';
import type { Channel, SessionListener } from '../../model/channel.ts';
import type { ModernServer } from '../../model/modern-server.ts';
import {
  isJsonObject,
  objectMember,
  parseMessage,
  without,
  type JsonObject,
  type JsonValue,
} from '../../protocol/json.ts';
import {
  ErrorCode,
  readMessage,
  type JsonRpcErrorObject,
  type JsonRpcMessage,
  type JsonRpcReply,
} from '../../protocol/json-rpc.ts';
import { LOG_LEVELS } from '../../protocol/meta.ts';
import { withoutReservedMeta } from '../../protocol/translate/cleaning.ts';
import {
  initializeResult,
  legacyResult,
  modernParams,
  readLegacyClient,
  WrappedResults,
  type LegacyClient,
} from '../../protocol/translate/for-legacy-clients.ts';
import type { LegacyQuestion } from '../../protocol/translate/legacy-questions.ts';
import { ModernCall, type CallEnd, type CallSession } from './call.ts';
import { ServerChanges } from './changes.ts';
import { ParameterHeaders } from './request-headers.ts';

export interface ModernChannelOptions {
  readonly server: ModernServer;
  readonly clock: Clock;
  /** How long a call can take with all its questions, in ms. */
  readonly maxCallMs: number;
  /** How long any other request can take, in ms. */
  readonly requestTimeoutMs: number;
  /** Called when the server does not speak 2026-07-28 any more. */
  readonly onDoubt: () => void;
}

type Request = Extract<JsonRpcMessage, { type: 'request' }>;
type Id = Request['id'];
type Headers = Readonly<Record<string, string>>;

/** Namespaces of MCP. What is in them and not served here, no server knows. */
const OF_MCP =
  /^(?:initialize|ping|(?:completion|elicitation|logging|notifications|prompts|resources|roots|sampling|server|subscriptions|tasks|tools)\/.*)$/s;
/** Sent as they are. */
const PASSED: ReadonlySet<string> = new Set([
  ...['tools/list', 'tools/call', 'prompts/list', 'prompts/get', 'completion/complete'],
  ...['resources/list', 'resources/templates/list', 'resources/read'],
]);
const HEADER_TEXT = /^[\x21-\x7e]+$/;
const METHOD_NOT_FOUND: JsonRpcErrorObject = {
  code: ErrorCode.methodNotFound,
  message: 'Method not found',
};
/** How many pages of a list of tools are read. */
const MAX_PAGES = 100;

export class ModernChannel implements Channel {
  readonly #listener: SessionListener;
  readonly #options: ModernChannelOptions;
  #client: LegacyClient = readLegacyClient({});
  /** Of the server. */
  #capabilities: JsonObject = {};
  #logLevel: string | null = null;
  /** Of the caller's last request. */
  #headers: Headers = {};
  readonly #calls = new Map<Id, ModernCall>();
  /** By the id of the question. */
  readonly #questions = new Map<string, (reply: JsonRpcReply) => void>();
  readonly #parameters = new ParameterHeaders();
  readonly #results = new WrappedResults();
  #changes: ServerChanges | null = null;
  /** Whether a tool that the client has not listed made the gateway list them. */
  #hasListed = false;
  #isPaused = false;
  #isOver = false;

  constructor(listener: SessionListener, options: ModernChannelOptions) {
    this.#listener = listener;
    this.#options = options;
  }

  async send(line: string, headers: Headers): Promise<void> {
    const message = readMessage(withoutNull(parseMessage(line)));
    this.renew(headers);
    const plain = withoutParameters(headers);
    switch (message.type) {
      case 'request':
        return inBackground(this.#serve(message, plain));
      case 'notification':
        return this.#notified(message.method, message.params);
      case 'response':
        return this.#questions.get(String(message.id))?.(message.reply);
      case 'malformed':
        return this.#refuse(line, message.problem);
    }
  }

  renew(headers: Headers): void {
    // A question that could not be asked is refused without headers.
    if (Object.keys(headers).length === 0) return;
    const isOther = headers['authorization'] !== this.#headers['authorization'];
    this.#headers = withoutParameters(headers);
    if (isOther) this.#changes?.renewed();
  }

  pause(): void {
    this.#isPaused = true;
    for (const call of this.#calls.values()) call.pause();
    this.#changes?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    for (const call of this.#calls.values()) call.resume();
    this.#changes?.resume();
  }

  async end(): Promise<void> {
    this.#isOver = true;
    this.#changes?.end();
    for (const call of this.#calls.values()) call.cancel();
  }

  /** Takes a notification of the client. Others have no meaning for a server that keeps nothing of a client. */
  #notified(method: string, { requestId }: JsonObject): void {
    if (method === 'notifications/initialized') this.#changes?.begin();
    if (method !== 'notifications/cancelled') return;
    this.#calls.get(requestId as Id)?.cancel();
  }

  async #serve(request: Request, headers: Headers): Promise<void> {
    const { id, method, params } = request;
    switch (method) {
      case 'initialize':
        return this.#initialize(request, headers);
      case 'ping':
        return this.#reply(id, { result: {} });
      case 'logging/setLevel':
        return this.#reply(id, this.#setLevel(params));
      case 'resources/subscribe':
      case 'resources/unsubscribe':
        return this.#reply(id, await this.#subscribe(method, params));
    }
    // A header cannot name another one.
    if (!HEADER_TEXT.test(method) || (OF_MCP.test(method) && !PASSED.has(method))) {
      return this.#reply(id, { error: METHOD_NOT_FOUND });
    }
    const end = await this.#run(id, method, params, headers);
    if (end !== null) this.#end(id, end, (result) => this.#translated(method, params, result));
  }

  /** Refuses what the face takes for a message and a server would not: its sender waits for something. */
  #refuse(line: string, problem: string): void {
    const message = parseMessage(line);
    if (!isJsonObject(message)) return;
    const { id, method } = message;
    if (typeof id !== 'string' && typeof id !== 'number') return;
    const error = { code: ErrorCode.invalidRequest, message: `Invalid message: ${problem}` };
    if (typeof method === 'string') return this.#reply(id, { error });
    this.#questions.get(String(id))?.({ error });
  }

  async #initialize({ id, params }: Request, headers: Headers): Promise<void> {
    const client = readLegacyClient(params);
    this.#client = client;
    const end = await this.#run(id, 'server/discover', {}, headers);
    if (end === null) return;
    // It may be another server by now.
    if (end.type === 'replied' && 'error' in end.reply) this.#options.onDoubt();
    this.#end(id, end, (discovered) => {
      this.#capabilities = objectMember(discovered, 'capabilities') ?? {};
      const { server, clock, requestTimeoutMs: timeoutMs } = this.#options;
      this.#changes = new ServerChanges({
        ...{ server, clock, timeoutMs, capabilities: this.#capabilities },
        params: (content) => this.#params(content, false),
        headers: () => this.#headers,
        notified: (method, content) => this.#tell(null, method, content),
      });
      return initializeResult(discovered, client);
    });
  }

  /** Sends a request. Resolves to what came of it; to `null` if it was cancelled. */
  async #run(
    id: Id,
    method: string,
    params: JsonObject,
    headers: Headers,
  ): Promise<CallEnd | null> {
    const call = new ModernCall(this.#sessionOf(id, headers), { method, params });
    this.#calls.set(id, call);
    if (this.#isPaused) call.pause();
    if (this.#isOver) call.cancel();
    try {
      return await call.run();
    } finally {
      this.#calls.delete(id);
    }
  }

  #sessionOf(id: Id, headers: Headers): CallSession {
    const { server, clock, maxCallMs, requestTimeoutMs, onDoubt } = this.#options;
    return {
      ...{ server, clock, maxCallMs, requestTimeoutMs, client: this.#client, doubt: onDoubt },
      params: (params, withTasks) => this.#params(params, withTasks),
      // A token can have been renewed since the call began.
      headersOf: (method, params) => ({
        ...headers,
        ...(headers['authorization'] !== undefined && pick(this.#headers, 'authorization')),
        ...this.#parametersOf(method, params),
      }),
      knowHeadersOf: (tool) => this.#knowHeadersOf(tool, headers),
      relist: () => this.#relist(headers),
      notified: (method, params) => this.#tell(id, method, withoutReservedMeta(params)),
      ask: (question, waitMs, over) => this.#ask(id, question, waitMs, over),
    };
  }

  #params(params: JsonObject, withTasks: boolean): JsonObject {
    return modernParams(params, { client: this.#client, logLevel: this.#logLevel, withTasks });
  }

  #parametersOf(method: string, params: JsonObject): Headers {
    const args = objectMember(params, 'arguments') ?? {};
    return method === 'tools/call' ? this.#parameters.of(String(params['name']), args) : {};
  }

  /** A client must send the headers that the tool wants, and so know it ("Client Behavior"). */
  async #knowHeadersOf(tool: string, headers: Headers): Promise<void> {
    const { hasHeaders } = this.#options.server;
    if (!hasHeaders || this.#hasListed || this.#parameters.has(tool)) return;
    this.#hasListed = true;
    await this.#relist(headers);
  }

  /** Reads which headers tools want, without the client. */
  async #relist(headers: Headers): Promise<boolean> {
    let params: JsonObject = {};
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const end = await this.#run(`relist-${randomId()}`, 'tools/list', params, headers);
      if (end?.type !== 'replied' || 'error' in end.reply) return false;
      const { tools, nextCursor } = end.reply.result;
      this.#parameters.learn(Array.isArray(tools) ? tools : []);
      if (typeof nextCursor !== 'string') break;
      params = { cursor: nextCursor };
    }
    return true;
  }

  #translated(method: string, { name }: JsonObject, result: JsonObject): JsonObject {
    const legacy = legacyResult(result);
    if (method === 'tools/call') return this.#results.result(String(name), legacy);
    const { tools } = legacy;
    if (method !== 'tools/list' || !Array.isArray(tools)) return legacy;
    const valid = this.#parameters.learn(tools);
    const shown = this.#options.server.hasHeaders ? valid : tools;
    return { ...legacy, tools: shown.map((tool) => this.#results.tool(tool)) };
  }

  #setLevel({ level }: JsonObject): JsonRpcReply {
    if (objectMember(this.#capabilities, 'logging') === undefined) {
      return { error: METHOD_NOT_FOUND };
    }
    if (typeof level !== 'string' || !LOG_LEVELS.includes(level)) {
      return invalid(`"level" must be one of ${LOG_LEVELS.join(', ')}`);
    }
    this.#logLevel = level;
    return { result: {} };
  }

  async #subscribe(method: string, { uri }: JsonObject): Promise<JsonRpcReply> {
    if (objectMember(this.#capabilities, 'resources')?.['subscribe'] !== true) {
      return { error: METHOD_NOT_FOUND };
    }
    if (typeof uri !== 'string') return invalid('"uri" must be a string');
    const isOn = method === 'resources/subscribe';
    const isDone = await (isOn ? this.#changes?.subscribe(uri) : this.#changes?.unsubscribe(uri));
    return isDone === true
      ? { result: {} }
      : invalid('The server does not send updates of this resource');
  }

  /** Asks the client in one of its requests. */
  async #ask(
    about: Id,
    { method, params }: LegacyQuestion,
    waitMs: number,
    over: Closed,
  ): Promise<JsonRpcReply | null> {
    if (over.aborted) return null;
    const id = randomId();
    const answered = Promise.withResolvers<JsonRpcReply | null>();
    const giveUp = () => answered.resolve(null);
    this.#questions.set(id, answered.resolve);
    over.addEventListener('abort', giveUp);
    const timer = this.#options.clock.setTimer(waitMs, giveUp);
    this.#write({ type: 'request', id, method, params }, about);
    const reply = await answered.promise;
    timer.cancel();
    over.removeEventListener('abort', giveUp);
    this.#questions.delete(id);
    if (reply === null) this.#tell(about, 'notifications/cancelled', { requestId: id });
    return reply;
  }

  #end(id: Id, end: CallEnd, translate: (result: JsonObject) => JsonObject): void {
    if (end.type === 'replied') {
      const { reply } = end;
      return this.#reply(id, 'error' in reply ? reply : { result: translate(reply.result) });
    }
    const { error, httpStatus, headers = {} } = end.failure;
    this.#listener.refused(id, lineOf({ type: 'response', id, reply: { error } }), {
      httpStatus,
      headers,
    });
  }

  #reply(id: Id, reply: JsonRpcReply): void {
    this.#write({ type: 'response', id, reply }, id);
  }

  #tell(about: Id | null, method: string, params: JsonObject): void {
    this.#write({ type: 'notification', method, params }, about);
  }

  /** @param about the request of the client that the message belongs to; `null` for none */
  #write(message: JsonRpcMessage, about: Id | null): void {
    if (!this.#isOver) this.#listener.messages([message], lineOf(message), about);
  }
}

/** Some clients write absent params as `null`. */
function withoutNull(message: JsonValue): JsonValue {
  return isJsonObject(message) && message['params'] === null
    ? without(message, ['params'])
    : message;
}

function pick(headers: Headers, name: string): Headers {
  const value = headers[name];
  return value === undefined ? {} : { [name]: value };
}

/** What repeats parameters is written anew for each call. */
function withoutParameters(headers: Headers): Headers {
  const kept = Object.entries(headers).filter(([name]) => !name.startsWith('mcp-param-'));
  return Object.fromEntries(kept);
}

function invalid(message: string): JsonRpcReply {
  return { error: { code: ErrorCode.invalidParams, message } };
}

function lineOf(message: JsonRpcMessage): string {
  const { type: _type, ...members } = message;
  const { reply, ...rest } = { reply: {}, ...members };
  return JSON.stringify({ jsonrpc: '2.0', ...rest, ...reply });
}
