/** The wire of a legacy client, with `node:http` and nothing else. */
import type http from 'node:http';
import { type IncomingMessage } from 'node:http';
import { below } from '../../engine/random.ts';
import { simulation } from '../../engine/simulation.ts';
import type { Surroundings } from '../caller.ts';
import { OUTCOME_WITHIN_MS } from '../checker.ts';
import { type Broken, sendOverHttp, TOO_LATE } from '../client.ts';
import type { LegacyRevision } from './legacy-plans.ts';
import type { Message } from '../servers/sessions.ts';
import { bearerOf, renewToken } from '../tokens.ts';

export interface LegacyRequest {
  readonly caller: string;
  readonly revision: LegacyRevision;
  readonly method: 'POST' | 'GET' | 'DELETE';
  /** The id of the session, if there is one. */
  readonly session: string | null;
  readonly message?: object;
  /** Of a GET: the last event that the client has. */
  readonly lastEvent?: string | null;
}

/** The head of a response, whose body is still to be read; or how the request broke. */
type Reply =
  Broken | { readonly type: 'head'; readonly status: number; readonly response: IncomingMessage };

/** A reply, and the process that was asked. */
export type LegacyReply = Reply & { readonly by: string };

/** As far as it is looked at here. */
export interface LegacyMessage extends Omit<Message, 'result' | 'error' | 'params'> {
  readonly params?: { readonly message?: string; readonly requestId?: string | number };
  readonly result?: {
    readonly instructions?: string;
    readonly content?: readonly { readonly text?: string }[];
    readonly isError?: boolean;
  };
  readonly error?: {
    readonly message?: string;
    readonly data?: { readonly mayHaveActed?: 'no' | 'unknown' | 'yes' };
  };
}

interface Pause {
  readonly least: number;
  readonly range: number;
}

/** One client, which sends each request to some replica. */
export class LegacyClient {
  readonly name: string;
  readonly caller: string;
  readonly revision: LegacyRevision;
  readonly around: Surroundings;
  readonly #open = new Set<http.ClientRequest>();
  #sent = 0;

  constructor(
    name: string,
    { caller, revision }: Pick<LegacyRequest, 'caller' | 'revision'>,
    around: Surroundings,
  ) {
    this.name = name;
    this.caller = caller;
    this.revision = revision;
    this.around = around;
  }

  /** @returns the head of the response */
  async send(
    request: Omit<LegacyRequest, 'caller' | 'revision'> & { caller?: string },
  ): Promise<LegacyReply> {
    const { name: by, port } = this.around.pick(`${this.name}:${(this.#sent += 1)}`);
    const sentMs = simulation().nowMs;
    const untilMs = () => this.latest(sentMs, OUTCOME_WITHIN_MS);
    const { caller, revision } = this;
    const reply = await send(port, { caller, revision, ...request }, untilMs, (sent) => {
      this.#open.add(sent);
      sent.on('close', () => this.#open.delete(sent));
    });
    if (reply.type === 'head' && reply.status === 401) renewToken(this.caller);
    if (reply.type === 'broken' && reply.how === TOO_LATE) {
      this.around.checker.break(6, `a request of ${this.name} has no outcome`);
    }
    return { ...reply, by };
  }

  /** Closes all of its connections. */
  leave(): void {
    for (const request of this.#open) request.destroy();
  }

  /** The id of the next request. */
  get nextId(): string {
    return `request-${this.#sent}`;
  }

  /** Sends a request of the protocol. Its id is its own. */
  request(method: string, params: object, session: string | null): Promise<LegacyReply> {
    const message = { jsonrpc: '2.0', id: this.nextId, method, params };
    return this.send({ method: 'POST', session, message });
  }

  /** When what was begun at a time is too late. */
  latest(sinceMs: number, withinMs: number): number {
    return Math.max(sinceMs, this.around.lastFaultMs()) + withinMs;
  }

  pause({ least, range }: Pause): Promise<void> {
    const noise = `${this.around.seed}:${this.name}:${this.#sent}`;
    return simulation().sleep(least + below(noise, range));
  }

  tell(what: string): void {
    this.around.tell(`${this.name} ${what}`);
  }
}

/** @param untilMs when the client gives up to wait for the head, asked again when that time has come */
function send(
  port: number,
  { caller, revision, method, session, message, lastEvent = null }: LegacyRequest,
  untilMs: () => number,
  onSent: (request: http.ClientRequest) => void,
): Promise<Reply> {
  const headers = {
    accept: method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream',
    authorization: `Bearer ${bearerOf(caller)}`,
    ...(message !== undefined && { 'content-type': 'application/json' }),
    ...(session !== null && {
      'mcp-session-id': session,
      'mcp-protocol-version': revision,
    }),
    ...(lastEvent !== null && { 'last-event-id': lastEvent }),
  };
  const body = message === undefined ? undefined : JSON.stringify(message);
  const exchange = { port, path: '/mcp', method, headers, body, untilMs, onSent };
  return sendOverHttp<Reply>(exchange, (response) => {
    return { type: 'head', status: response.statusCode ?? 0, response };
  });
}

/** Reads a body, as JSON or as a stream. @returns its last message; `null` if it breaks, or is empty */
export async function readLegacy(response: IncomingMessage): Promise<LegacyMessage | null> {
  if (isStream(response)) {
    let last: LegacyMessage | null = null;
    await readStream(response, (_, message) => (last = message ?? last));
    return last;
  }
  try {
    let text = '';
    for await (const bytes of response) text += String(bytes);
    return text === '' ? null : (JSON.parse(text) as LegacyMessage);
  } catch {
    return null;
  }
}

export function isStream({ headers }: IncomingMessage): boolean {
  return String(headers['content-type']).startsWith('text/event-stream');
}

/**
 * Reads a stream to its end, however it ends.
 * @param onEvent called with the id of each event, and its message if it has one
 */
export function readStream(
  response: IncomingMessage,
  onEvent: (id: string | null, message: LegacyMessage | null) => unknown,
): Promise<void> {
  let text = '';
  response.on('data', (bytes: Buffer) => {
    text += String(bytes);
    const events = text.split('\n\n');
    text = events.pop() ?? '';
    for (const event of events) {
      const field = (name: string) => new RegExp(`^${name}: ?(.*)$`, 'm').exec(event)?.[1] ?? null;
      const data = field('data') ?? '';
      onEvent(field('id'), data === '' ? null : (JSON.parse(data) as LegacyMessage));
    }
  });
  response.on('error', () => {});
  return new Promise((resolve) => {
    if (response.closed) resolve();
    else response.on('close', resolve);
  });
}
