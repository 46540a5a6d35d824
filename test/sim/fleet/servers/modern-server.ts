/**
 * A simulated server that speaks 2026-07-28 over HTTP and nothing else: it keeps no session, and asks in results. What it needs to
 * go on with a call is in the `requestState`.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { simulation } from '../../engine/simulation.ts';
import type { Deed } from './journal.ts';
import { NOT_BEGUN, type Progress, runStep } from './modern-call.ts';
import { answerTo, questionOf } from './questions.ts';
import { callerOf, peerOf, type Requests, replyWithJson } from './requests.ts';
import type { Answer, Json, Message, ServerOptions } from './sessions.ts';
import { isTool, TOOLS } from './tools.ts';
import { contentOf, type Report } from './work.ts';

const MODERN = '2026-07-28';
const META = 'io.modelcontextprotocol';
const SUBSCRIPTION = `${META}/subscriptionId`;
const COMPLETE = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' } as const;
const ERRORS = {
  mismatch: { code: -32_020, message: 'Header mismatch' },
  missing: { code: -32_021, message: 'Missing capability' },
  version: { code: -32_022, message: 'Unsupported protocol version' },
  params: { code: -32_602, message: 'Invalid params' },
  method: { code: -32_601, message: 'Method not found' },
} as const;
/** The header in which a tool wants the name of its call, and how its schema says so. */
const PARAMETER = { header: 'mcp-param-call', name: 'Call' };

type Id = string | number | undefined;

/** The params, as far as they are looked at here. */
interface ModernParams {
  readonly name?: string;
  readonly arguments?: { readonly call?: string };
  readonly requestState?: string;
  readonly inputResponses?: Readonly<Record<string, Answer>>;
  readonly notifications?: Json;
  readonly _meta?: Readonly<Record<string, unknown>> & { readonly progressToken?: string | number };
}

/** What a state says to the server that has issued it. */
interface Issued {
  readonly call: string;
  readonly caller: string;
  readonly progress: Progress;
  /** The questions of the round, by their keys. */
  readonly asked: Readonly<Record<string, string>>;
  isUsed: boolean;
}

interface Listener {
  readonly client: string;
  readonly response: ServerResponse;
  readonly id: Id;
}

export class ModernServer implements Requests {
  readonly #options: ServerOptions;
  /** By the state. */
  readonly #issued = new Map<string, Issued>();
  readonly #listeners = new Set<Listener>();
  readonly #open = new Set<ServerResponse>();

  constructor(options: ServerOptions) {
    this.#options = options;
  }

  /** It keeps nothing, but restarts: all that is open breaks. */
  forget(): void {
    for (const response of this.#open) response.destroy();
  }

  change(): void {
    for (const { response, id } of this.#listeners) {
      const params = { _meta: { [SUBSCRIPTION]: id } };
      write(response, { jsonrpc: '2.0', method: 'notifications/tools/list_changed', params });
    }
  }

  readers(): string[] {
    return [...this.#listeners].map(({ client }) => client);
  }

  serve(request: IncomingMessage, response: ServerResponse, message: Message): void {
    this.#open.add(response);
    response.on('close', () => this.#open.delete(response));
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const { id, method } = message;
    const params: ModernParams = message.params ?? {};
    if (params._meta?.[`${META}/protocolVersion`] !== MODERN) {
      const data = { supported: [MODERN], requested: String(request.headers[VERSION_HEADER]) };
      return refuse(response, 400, id, { ...ERRORS.version, data });
    }
    if (!areRepeated(request, message)) return refuse(response, 400, id, ERRORS.mismatch);
    const isCall = method === 'tools/call';
    if (isCall && !takesForms(params)) return refuse(response, 400, id, ERRORS.missing);
    const caller = callerOf(request);
    switch (method) {
      case 'server/discover':
        return replyWithJson(response, replyTo(id, this.#description(caller)));
      case 'tools/list':
        return replyWithJson(response, replyTo(id, this.#tools(caller)));
      case 'subscriptions/listen':
        return this.#listen(response, id, params);
      case 'tools/call':
        return this.#serveCall(request, response, id, params);
      default:
        return refuse(response, 404, id, ERRORS.method);
    }
  }

  #description(caller: string): Json {
    return {
      ...COMPLETE,
      supportedVersions: [MODERN],
      capabilities: { tools: { listChanged: true } },
      instructions: `caller=${caller};`,
      _meta: { [`${META}/serverInfo`]: { name: 'simulated', version: '1' } },
    };
  }

  #tools(caller: string): Json {
    const { wantsHeaders } = this.#options.traits;
    const call = { type: 'string', ...(wantsHeaders && { 'x-mcp-header': PARAMETER.name }) };
    const inputSchema = { type: 'object', properties: { call } };
    const description = `caller=${caller};`;
    return { ...COMPLETE, tools: TOOLS.map((name) => ({ name, description, inputSchema })) };
  }

  #listen(response: ServerResponse, id: Id, { notifications, _meta }: ModernParams): void {
    beginStream(response);
    const told = { notifications, _meta: { [SUBSCRIPTION]: id } };
    const method = 'notifications/subscriptions/acknowledged';
    write(response, { jsonrpc: '2.0', method, params: told });
    const info = _meta?.[`${META}/clientInfo`] as { readonly name?: string } | undefined;
    const listener = { client: info?.name ?? '', response, id };
    this.#listeners.add(listener);
    response.on('close', () => this.#listeners.delete(listener));
    const { endsListeningMs } = this.#options.traits;
    if (endsListeningMs === null) return;
    simulation().after(endsListeningMs, () => {
      this.#listeners.delete(listener);
      const result = { resultType: 'complete', _meta: { [SUBSCRIPTION]: id } };
      write(response, replyTo(id, result));
      response.end();
    });
  }

  #serveCall(
    request: IncomingMessage,
    response: ServerResponse,
    id: Id,
    params: ModernParams,
  ): void {
    const { traits } = this.#options;
    const call = params.arguments?.call ?? '';
    const by = peerOf(response);
    const isRepeated = request.headers[PARAMETER.header] === call;
    if (traits.wantsHeaders && !isRepeated) return refuse(response, 400, id, ERRORS.mismatch);
    const begun = this.#begin(call, callerOf(request), params, by);
    if (begun === null || params.name === undefined || !isTool(params.name)) {
      return refuse(response, 400, id, ERRORS.params);
    }
    const { name: tool } = params;
    const isRound = params.requestState !== undefined;
    void this.#work({ call, tool, by, isRound }, begun, callerOf(request), response, id, params);
  }

  /** Takes the state and the answers. @returns how far the call is; `null` if the state is not that of this call */
  #begin(
    call: string,
    caller: string,
    { requestState, inputResponses }: ModernParams,
    by: string,
  ): Progress | null {
    if (requestState === undefined) {
      if (inputResponses !== undefined) this.#note('state changed', call, by);
      this.#note('called', call, by);
      return NOT_BEGUN;
    }
    const issued = this.#issued.get(requestState);
    if (issued?.call !== call || issued.caller !== caller) {
      this.#note('state changed', call, by);
      return null;
    }
    const { asked, progress } = issued;
    if (issued.isUsed) this.#note('answered again', call, by);
    issued.isUsed = true;
    const answers = Object.entries(asked).map(([key, question]) =>
      this.#take(call, question, inputResponses?.[key], by),
    );
    if (Object.keys(inputResponses ?? {}).length > answers.length) {
      this.#note('answered again', call, by);
    }
    return { ...progress, answers: [...progress.answers, ...answers] };
  }

  /** Takes the answer to a question. @returns what it says */
  #take(call: string, question: string, given: Answer | undefined, by: string): string {
    const more = { question };
    this.#note('answered', call, by, more);
    const isAccepted = given?.action === 'accept';
    if (!isAccepted) this.#note('declined', call, by, more);
    const { message } = questionOf(call, question);
    const answer = given?.content?.name ?? 'declined';
    if (answer !== answerTo(message)) this.#note('answered wrongly', call, by, more);
    return answer;
  }

  async #work(
    { call, tool, by, isRound }: Parameters<typeof runStep>[0] & { by: string; isRound: boolean },
    progress: Progress,
    caller: string,
    response: ServerResponse,
    id: Id,
    { _meta }: ModernParams,
  ): Promise<void> {
    const { traits } = this.#options;
    const isStream = tool === 'reports' || !traits.repliesWithJson;
    let isOver = false;
    response.on('close', () => {
      if (!isOver) this.#note('cancelled', call, by);
    });
    if (isStream) beginStream(response);
    const reply = (result: Json) => {
      isOver = true;
      if (!isStream) return replyWithJson(response, replyTo(id, result));
      write(response, replyTo(id, result));
      response.end();
    };
    if (isRound && traits.takesAnswersMs > 0) await simulation().sleep(traits.takesAnswersMs);
    if (progress.dallied < traits.dallies) {
      this.#note('sent back', call, by);
      const dallied = { ...progress, dallied: progress.dallied + 1 };
      return reply(this.#askFor([], call, caller, dallied));
    }
    const progressToken = _meta?.progressToken;
    const report = (told: Report) => {
      const params = { progressToken, ...told };
      write(response, { jsonrpc: '2.0', method: 'notifications/progress', params });
    };
    const step = await runStep(
      { call, tool },
      progress,
      this.#options,
      progressToken === undefined ? null : report,
      () => this.#note('acted', call, by),
    );
    if (response.destroyed) return;
    if (step.type === 'done') {
      this.#note('ended', call, by);
      return reply({ ...COMPLETE, content: contentOf(call, step.answers, this.#options) });
    }
    const { questions, done } = step;
    for (const question of questions) this.#note('asked', call, by, { question });
    reply(this.#askFor(questions, call, caller, { ...progress, done }));
  }

  /** Has a request sent again. The keys of one round are those of another one. */
  #askFor(questions: readonly string[], call: string, caller: string, progress: Progress): Json {
    const keyed = questions.map((question, nth) => [`question${nth + 1}`, question] as const);
    // What reads it, or writes it anew, changes it.
    const requestState = `{"of": "${call}",  "nth":${this.#issued.size}.0, "é\\u00e9":"+/= %2F"}`;
    const asked = Object.fromEntries(keyed);
    this.#issued.set(requestState, { call, caller, progress, asked, isUsed: false });
    const inputRequests = keyed.map(([key, question]) => {
      const params = { mode: 'form', ...questionOf(call, question) };
      return [key, { method: 'elicitation/create', params }];
    });
    return {
      resultType: 'input_required',
      ...(questions.length > 0 && { inputRequests: Object.fromEntries(inputRequests) as Json }),
      requestState,
    };
  }

  #note(what: Deed, call: string, by: string, more: { readonly question?: string } = {}): void {
    this.#options.journal.note(what, call, { session: '', by, ...more });
  }
}

const VERSION_HEADER = 'mcp-protocol-version';

/** Whether the headers say what the body says ("Request Metadata"). */
function areRepeated({ headers }: IncomingMessage, { method, params }: Message): boolean {
  const isNamed = method !== 'tools/call' || headers['mcp-name'] === params?.name;
  return isNamed && headers[VERSION_HEADER] === MODERN && headers['mcp-method'] === method;
}

/** Whether the client declares that it can be asked. */
function takesForms({ _meta }: ModernParams): boolean {
  const declared = _meta?.[`${META}/clientCapabilities`] as { elicitation?: object } | undefined;
  return declared?.elicitation !== undefined;
}

function replyTo(id: Id, result: Json): Json {
  return { jsonrpc: '2.0', id, result };
}

function refuse(response: ServerResponse, status: number, id: Id, error: Json): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', id: id ?? null, error }));
}

function beginStream(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.flushHeaders();
}

function write(response: ServerResponse, message: Json): void {
  response.write(`data: ${JSON.stringify(message)}\n\n`);
}
