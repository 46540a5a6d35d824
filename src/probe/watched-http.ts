/** The HTTP client of the gateway, with a note of how each request was answered. */
import { HttpClient, type HttpAnswer, type HttpExchange } from '../upstream/http/client.ts';

export interface Seen {
  readonly method: HttpExchange['method'];
  readonly status: number;
  /** The session id that the answer handed out. A credential: it goes nowhere but back to the server. */
  readonly sessionId: string | null;
}

export class WatchedHttp extends HttpClient {
  readonly #seen: Seen[] = [];

  /** The first answer to a request with this method. */
  first(method: HttpExchange['method']): Seen | null {
    return this.#seen.find((seen) => seen.method === method) ?? null;
  }

  /** The last answer to a request with this method. */
  last(method: HttpExchange['method']): Seen | null {
    return this.#seen.findLast((seen) => seen.method === method) ?? null;
  }

  /** The session id that was handed out first. */
  get sessionId(): string | null {
    return this.#seen.find(({ sessionId }) => sessionId !== null)?.sessionId ?? null;
  }

  override async send(exchange: HttpExchange): Promise<HttpAnswer> {
    const answer = await super.send(exchange);
    this.#seen.push({
      method: exchange.method,
      status: answer.status,
      sessionId: handedOut(answer),
    });
    return answer;
  }
}

/** The session id in the head of an answer. */
export function handedOut(answer: HttpAnswer): string | null {
  const value = answer.headers['mcp-session-id'];
  return typeof value === 'string' && value !== '' ? value : null;
}
