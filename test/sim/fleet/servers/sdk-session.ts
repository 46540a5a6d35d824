/**
 * A session of a server that is built with the official SDK, which runs as it is. What happens in it is seen where messages
 * come and go.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js';
import {
  type ElicitResult,
  ElicitResultSchema,
  ErrorCode,
  type JSONRPCMessage,
  McpError,
  type RequestId,
  type ServerNotification,
  type ServerRequest,
} from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { Random } from '../../engine/random.ts';
import { simulation } from '../../engine/simulation.ts';
import type { Deed, JournalEntry } from './journal.ts';
import { ANSWER_WITHIN_MS, questionOf, Questions, readQuestion } from './questions.ts';
import { peerOf } from './requests.ts';
import { CountingEventStore, onHead, OpenResponses } from './sdk-streams.ts';
import { type Message, PING_EVERY_MS, PONG_WITHIN_MS, type ServerOptions } from './sessions.ts';
import { STANDALONE } from './streamable-http.ts';
import { runTool, type Tool, TOOLS } from './tools.ts';
import { contentOf, untilWithdrawn, workOf } from './work.ts';

type Extra = RequestHandlerExtra<ServerRequest, ServerNotification>;
const WITHDRAWN = 'withdrawn';
type Sent = (message: JSONRPCMessage, of: RequestId | undefined) => void;

/** Says what the SDK sends, before it is on its way. */
class SeenTransport extends StreamableHTTPServerTransport {
  onSent: Sent = () => {};

  override send(
    message: JSONRPCMessage,
    options?: { relatedRequestId?: RequestId },
  ): Promise<void> {
    const sending = super.send(message, options);
    this.onSent(message, options?.relatedRequestId);
    return sending;
  }
}

export class SdkSession {
  readonly #name: string;
  readonly #client: { readonly name: string; readonly caller: string };
  readonly #options: ServerOptions;
  readonly #onOver: () => void;
  readonly #store: CountingEventStore | null;
  readonly #transport: SeenTransport;
  readonly #server: McpServer;
  readonly #responses = new OpenResponses();
  readonly #questions = new Questions((what, call, by, more) => this.#note(what, call, by, more));
  /** The calls that go on, by the ids of their requests. */
  readonly #calls = new Map<RequestId, string>();
  /** The streams of calls of which an event was stored. */
  readonly #streams = new Map<RequestId, string>();
  #isOver = false;

  constructor(
    name: string,
    client: { readonly name: string; readonly caller: string },
    options: ServerOptions,
    onOver: () => void,
  ) {
    const { hasStore, pings, secondReader } = options.traits;
    this.#name = name;
    this.#client = client;
    this.#options = options;
    this.#onOver = onOver;
    this.#store = hasStore ? new CountingEventStore(secondReader === 'refused') : null;
    this.#transport = new SeenTransport({
      sessionIdGenerator: () => name,
      ...(this.#store !== null && { eventStore: this.#store }),
    });
    this.#transport.onSent = (message, of) => this.#sent(message, of);
    this.#server = this.#build();
    void this.#server.connect(this.#transport);
    if (pings) this.#pingLater();
  }

  /** What its client says that its name is. */
  get client(): string {
    return this.#client.name;
  }

  /** Whether somebody reads what is said in it. */
  get isRead(): boolean {
    return this.#responses.isAny;
  }

  /** Ends it, as a server does that stops. */
  close(): void {
    void this.#server.close();
  }

  change(): void {
    this.#server.sendToolListChanged();
  }

  serve(request: IncomingMessage, response: ServerResponse, message: Message): void {
    if (request.method === 'GET') this.#seeStream(request, response);
    if (request.method === 'POST') this.#receive(response, message);
    void this.#transport.handleRequest(request, response, message);
  }

  /** The SDK decides who can read a stream. */
  #seeStream({ headers }: IncomingMessage, response: ServerResponse): void {
    const last = headers['last-event-id'];
    const event = last === undefined ? (this.#store?.last.event ?? 0) : Number(last);
    const stream = last === undefined ? STANDALONE : (this.#store?.streamOf(event) ?? STANDALONE);
    onHead(response, (status) => {
      if (status !== 200) return;
      this.#responses.add(stream, response);
      this.#note('resumed', '', peerOf(response), { stream, event });
    });
  }

  #receive(response: ServerResponse, message: Message): void {
    const { id, method, params } = message;
    if (method !== undefined && id !== undefined) return this.#responses.add(id, response);
    const by = peerOf(response);
    const cancelled = this.#calls.get(params?.requestId ?? '');
    if (method === 'notifications/cancelled' && cancelled !== undefined) {
      this.#note('cancelled', cancelled, by);
    }
    if (method === undefined) this.#questions.take(String(id), message, by);
  }

  /** @param of the id of the request on whose stream it is, if it is that of a request */
  #sent(message: JSONRPCMessage, of: RequestId | undefined): void {
    if (!('method' in message)) return;
    const last = this.#store?.last;
    if (of !== undefined && last !== undefined) this.#streams.set(of, last.stream);
    const { params = {} } = message;
    if (message.method === 'notifications/cancelled') {
      const [id, by] = [String(params['requestId']), this.#readerOf(of)];
      if (params['reason'] === WITHDRAWN) this.#questions.withdraw(id, by);
      else this.#questions.expire(id, by, true);
    }
    const asked = readQuestion(String(params['message']));
    if (asked === null || !('id' in message)) return;
    const { call, question } = asked;
    const place = last ?? { stream: of === undefined ? STANDALONE : `of ${call}`, event: 1 };
    this.#note('asked', call, this.#readerOf(of), { question, ...place });
    this.#questions.open(String(message.id), { call, name: question });
  }

  /** Who reads the stream of a request, or that of the session. */
  #readerOf(request: RequestId | undefined): string {
    if (request === undefined) return this.#responses.readerOf(STANDALONE);
    return this.#responses.readerOf(this.#streams.get(request), request);
  }

  #build(): McpServer {
    const { caller } = this.#client;
    const server = new McpServer(
      { name: 'simulated', version: '1' },
      { capabilities: { logging: {} }, instructions: `caller=${caller};` },
    );
    for (const tool of TOOLS) {
      const config = { description: `caller=${caller};`, inputSchema: { call: z.string() } };
      server.registerTool(tool, config, async ({ call }, extra) => ({
        content: contentOf(call, await this.#run(tool, call, extra), this.#options),
      }));
    }
    server.server.onclose = () => this.#end();
    return server;
  }

  async #run(tool: Tool, call: string, extra: Extra): Promise<readonly string[]> {
    const { requestId, closeSSEStream } = extra;
    this.#calls.set(requestId, call);
    this.#note('called', call, this.#readerOf(requestId));
    this.#endConnectionsOf(requestId, closeSSEStream);
    try {
      const answers = await runTool(tool, this.#workOf(call, extra));
      if (!this.#isOver) this.#note('ended', call, this.#readerOf(requestId));
      return answers;
    } finally {
      this.#calls.delete(requestId);
    }
  }

  #workOf(call: string, extra: Extra) {
    const random = new Random(`${simulation().seed}:works:${call}`);
    let asked = 0;
    const ask = (where: 'own' | 'beside', signal?: AbortSignal) =>
      this.#ask(where, call, (asked += 1), extra, signal);
    const progressToken = extra._meta?.progressToken;
    // Of a call that is over, it sends none.
    const log = () =>
      extra
        .sendNotification({
          method: 'notifications/message',
          params: { level: 'info', data: `of=${call};` },
        })
        .catch(() => {});
    return {
      ask,
      askInVain: async () => {
        const withdrawing = new AbortController();
        const answer = ask('own', withdrawing.signal);
        await untilWithdrawn(random);
        withdrawing.abort(WITHDRAWN);
        await answer;
      },
      ...workOf(
        call,
        random,
        this.#options,
        progressToken === undefined
          ? null
          : (report) =>
              extra.sendNotification({
                method: 'notifications/progress',
                params: { progressToken, ...report },
              }),
      ),
      act: () => {
        if (this.#isOver) return;
        this.#note('acted', call, this.#readerOf(extra.requestId));
        void log();
      },
    };
  }

  /** @returns what the client gave. A tool whose call is over has no answer */
  #ask(
    where: 'own' | 'beside',
    call: string,
    nth: number,
    extra: Extra,
    signal?: AbortSignal,
  ): Promise<string> {
    const params = { mode: 'form' as const, ...questionOf(call, `${this.#name}-${call}-${nth}`) };
    const options = { timeout: ANSWER_WITHIN_MS, ...(signal !== undefined && { signal }) };
    const request = { method: 'elicitation/create' as const, params };
    const asked =
      where === 'own'
        ? extra.sendRequest(request, ElicitResultSchema, options)
        : this.#server.server.elicitInput(params, options);
    const answer = asked.then(answerOf, answerAfter);
    // Some tools do not wait for it.
    answer.catch(() => {});
    return answer;
  }

  /** Has the client come back from time to time, if it can resume the stream. */
  #endConnectionsOf(request: RequestId, close: (() => void) | undefined): void {
    const { endsConnectionsMs } = this.#options.traits;
    if (endsConnectionsMs === null || close === undefined) return;
    simulation().after(endsConnectionsMs, () => {
      if (!this.#calls.has(request)) return;
      close();
      this.#endConnectionsOf(request, close);
    });
  }

  #pingLater(): void {
    simulation().after(PING_EVERY_MS, () => {
      if (this.#isOver) return;
      const reader = this.#responses.readerOf(STANDALONE);
      let isAnswered = false;
      this.#server.server.ping().then(
        () => (isAnswered = true),
        () => {},
      );
      simulation().after(PONG_WITHIN_MS, () => {
        const isRead = reader !== 'nobody' && this.#responses.readerOf(STANDALONE) === reader;
        if (!isAnswered && isRead) this.#note('ping ignored', '', reader);
      });
      this.#pingLater();
    });
  }

  #end(): void {
    this.#isOver = true;
    for (const call of new Set([...this.#calls.values(), ...this.#questions.asking])) {
      this.#note('forgotten', call, 'nobody');
    }
    this.#calls.clear();
    this.#questions.forget();
    this.#onOver();
  }

  #note(what: Deed, call: string, by: string, more: Partial<JournalEntry> = {}): void {
    this.#options.journal.note(what, call, { session: this.#name, by, ...more });
  }
}

function answerOf({ action, content }: ElicitResult): string {
  return action === 'accept' ? String(content?.['name']) : 'declined';
}

function answerAfter(error: unknown): string {
  const code = error instanceof McpError ? error.code : null;
  if (code === ErrorCode.ConnectionClosed) throw error as Error;
  return code === ErrorCode.RequestTimeout ? 'not answered' : 'declined';
}
