/** What a simulated server has for HTTP requests. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { network } from '../../network/tcp-model.ts';
import { readToken } from '../tokens.ts';
import type { Json, Message } from './sessions.ts';

export interface Changing {
  /** The tools of the server change. */
  change(): void;
  /** The clients of the sessions of which somebody reads a stream, as they call themselves. */
  readers(): readonly string[];
}

export interface Requests extends Changing {
  serve(request: IncomingMessage, response: ServerResponse, message: Message): void;
  /** Forgets all sessions. */
  forget(): void;
}

export function replyWithJson(
  response: ServerResponse,
  message: Json,
  headers: Record<string, string> = {},
): void {
  response.writeHead(200, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(message));
}

/** Who sent it, by the credentials. */
export function callerOf({ headers: { authorization } }: IncomingMessage): string {
  const token = (authorization ?? 'nobody').replace('Bearer ', '');
  return token.includes('.') ? (readToken(token) ?? 'nobody') : token;
}

/** The process at the other end of a response. */
export function peerOf(response: ServerResponse | null): string {
  return network().ownerOf(response?.socket?.remotePort);
}
