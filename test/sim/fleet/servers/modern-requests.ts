/**
 * The requests of a simulated server that speaks 2026-07-28 and nothing else, over any transport: it keeps no session, and asks in
 * results. What it needs to go on with a call is in the `requestState`.
 */
import { simulation } from '../../engine/simulation.ts';
import type { Deed } from './journal.ts';
import { NOT_BEGUN, type Progress, runStep } from './modern-call.ts';
import { answerTo, questionOf } from './questions.ts';
import type { Answer, Json, ServerOptions } from './sessions.ts';
import { isTool, TOOLS } from './tools.ts';
import { contentOf, type Report } from './work.ts';

export const MODERN = '2026-07-28';
const META = 'io.modelcontextprotocol';
const SUBSCRIPTION = `${META}/subscriptionId`;
const COMPLETE = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' } as const;
export const ERRORS = {
  mismatch: { code: -32_020, message: 'Header mismatch' },
  missing: { code: -32_021, message: 'Missing capability' },
  version: { code: -32_022, message: 'Unsupported protocol version' },
  params: { code: -32_602, message: 'Invalid params' },
  method: { code: -32_601, message: 'Method not found' },
} as const;
/** How the schema of a tool says that it wants the name of its call in a header. */
export const PARAMETER = 'Call';

export type Id = string | number | undefined;

/** The params, as far as they are looked at here. */
export interface ModernParams {
  readonly name?: string;
  readonly arguments?: { readonly call?: string };
  readonly requestState?: string;
  readonly inputResponses?: Readonly<Record<string, Answer>>;
  readonly notifications?: Json;
  readonly _meta?: Readonly<Record<string, unknown>> & { readonly progressToken?: string | number };
}

/** A request that has no reply yet, and the way of what is said to it. */
export interface Exchange {
  readonly id: Id;
  readonly by: string;
  readonly caller: string;
  /** Whether nobody waits for it any more. */
  readonly isClosed: boolean;
  /** Whether nothing works for it any more, since its process is gone. */
  readonly isDead: boolean;
  /** @param listener called once nobody waits for it any more, and never after the reply */
  onClosed(listener: () => void): void;
  /** From here on it can be told something before the reply. */
  begin(): void;
  notify(method: string, params: Json): void;
  reply(result: Json): void;
  refuse(status: number, error: Json): void;
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
  readonly exchange: Exchange;
}

export class ModernRequests {
  readonly #options: ServerOptions;
  /** By the state. */
  readonly #issued = new Map<string, Issued>();
  readonly #listeners = new Set<Listener>();

  constructor(options: ServerOptions) {
    this.#options = options;
  }

  change(): void {
    for (const { exchange } of this.#listeners) {
      const params = { _meta: { [SUBSCRIPTION]: exchange.id } };
      exchange.notify('notifications/tools/list_changed', params);
    }
  }

  readers(): string[] {
    return [...this.#listeners].map(({ client }) => client);
  }

  serve(method: string | undefined, params: ModernParams, exchange: Exchange): void {
    if (params._meta?.[`${META}/protocolVersion`] !== MODERN) {
      const data = { supported: [MODERN], requested: 'another' };
      return exchange.refuse(400, { ...ERRORS.version, data });
    }
    switch (method) {
      case 'server/discover':
        return exchange.reply(this.#description(exchange.caller));
      case 'tools/list':
        return exchange.reply(this.#tools(exchange.caller));
      case 'subscriptions/listen':
        return this.#listen(exchange, params);
      case 'tools/call':
        if (!takesForms(params)) return exchange.refuse(400, ERRORS.missing);
        return this.#call(exchange, params);
      default:
        return exchange.refuse(404, ERRORS.method);
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
    const call = { type: 'string', ...(wantsHeaders && { 'x-mcp-header': PARAMETER }) };
    const inputSchema = { type: 'object', properties: { call } };
    const description = `caller=${caller};`;
    return { ...COMPLETE, tools: TOOLS.map((name) => ({ name, description, inputSchema })) };
  }

  #listen(exchange: Exchange, { notifications, _meta }: ModernParams): void {
    const ids = { [SUBSCRIPTION]: exchange.id };
    exchange.begin();
    exchange.notify('notifications/subscriptions/acknowledged', { notifications, _meta: ids });
    const info = _meta?.[`${META}/clientInfo`] as { readonly name?: string } | undefined;
    const listener = { client: info?.name ?? '', exchange };
    this.#listeners.add(listener);
    exchange.onClosed(() => this.#listeners.delete(listener));
    const { endsListeningMs } = this.#options.traits;
    if (endsListeningMs === null) return;
    simulation().after(endsListeningMs, () => {
      if (!this.#listeners.delete(listener)) return;
      exchange.reply({ resultType: 'complete', _meta: ids });
    });
  }

  #call(exchange: Exchange, params: ModernParams): void {
    const call = params.arguments?.call ?? '';
    const begun = this.#begin(call, exchange, params);
    if (begun === null || params.name === undefined || !isTool(params.name)) {
      return exchange.refuse(400, ERRORS.params);
    }
    const { name: tool } = params;
    void this.#work({ call, tool }, begun, exchange, params);
  }

  /** Takes the state and the answers. @returns how far the call is; `null` if the state is not that of this call */
  #begin(
    call: string,
    { caller, by }: Exchange,
    { requestState, inputResponses }: ModernParams,
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
    work: Parameters<typeof runStep>[0],
    progress: Progress,
    exchange: Exchange,
    { requestState, _meta }: ModernParams,
  ): Promise<void> {
    const { traits } = this.#options;
    const { call, tool } = work;
    const { by, caller } = exchange;
    exchange.onClosed(() => this.#note('cancelled', call, by));
    if (tool === 'reports' || !traits.repliesWithJson) exchange.begin();
    const isSlow = requestState !== undefined && traits.takesAnswersMs > 0;
    if (isSlow) await simulation().sleep(traits.takesAnswersMs);
    if (progress.dallied < traits.dallies) {
      this.#note('sent back', call, by);
      const dallied = { ...progress, dallied: progress.dallied + 1 };
      return exchange.reply(this.#askFor([], call, caller, dallied));
    }
    const progressToken = _meta?.progressToken;
    const report = (told: Report) =>
      exchange.notify('notifications/progress', { progressToken, ...told });
    const step = await runStep(
      work,
      progress,
      this.#options,
      progressToken === undefined ? null : report,
      () => {
        if (!exchange.isDead) this.#note('acted', call, by);
      },
    );
    if (exchange.isClosed) return;
    if (step.type === 'done') {
      this.#note('ended', call, by);
      const content = contentOf(call, step.answers, this.#options);
      return exchange.reply({ ...COMPLETE, content });
    }
    const { questions, done } = step;
    for (const question of questions) this.#note('asked', call, by, { question });
    exchange.reply(this.#askFor(questions, call, caller, { ...progress, done }));
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

/** Whether the client declares that it can be asked. */
function takesForms({ _meta }: ModernParams): boolean {
  const declared = _meta?.[`${META}/clientCapabilities`] as { elicitation?: object } | undefined;
  return declared?.elicitation !== undefined;
}
