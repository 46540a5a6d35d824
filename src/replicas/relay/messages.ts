/**
 * What replicas send each other, over HTTP or through Redis. Each message is sealed with a key of its own purpose,
 * since it holds a client's credentials and answers. It is valid for one process and one retry. No message expires
 * by a clock, since the clocks of two replicas can differ: a retry counts only if its sender confirms it.
 */
import { z } from 'zod';
import { callerKindOf } from '../../model/caller.ts';
import type { CallReply, EdgeRequest } from '../../model/request.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json/json.ts';
import { parseJson } from '../../protocol/json/parse.ts';
import { openBytes, sealBytes } from '../../seal/envelope.ts';
import type { KeyRing } from '../../seal/key-ring.ts';

const KINDS = {
  /** From the asker: a client's retry, see `writeRequest`. */
  retry: 'retry',
  /** From the owner: the call is here, and the retry is carried out if the asker confirms it. */
  ready: 'ready',
  /** From the asker: confirms that its client still waits. Repeats the text of the `ready`. */
  go: 'go',
  /** From the owner: a piece of the lines for the client, see `writeLine`. */
  piece: 'piece',
  /** From either: a heartbeat. */
  alive: 'alive',
  /** From the owner: the call is not here. */
  unknown: 'unknown',
  /** From the asker, which stops: the client should be told to retry, if the call allows it. */
  release: 'release',
  /** From the asker: it no longer waits, and its client was told to retry. */
  again: 'again',
  /** From the asker: the client has left. */
  closed: 'closed',
} as const;
export type MessageKind = keyof typeof KINDS;

export interface RelayMessage {
  readonly kind: MessageKind;
  /** Identifies one retry and all its messages. */
  readonly id: string;
  /** The process that wrote it. */
  readonly from: string;
  /** The index of a piece; 0 for all other kinds. */
  readonly number: number;
  readonly text: string;
}

const relayMessage = z.strictObject({
  v: z.literal(2),
  to: z.string().min(1),
  kind: z.enum(KINDS),
  id: z.string().min(1).max(64),
  from: z.string().min(1).max(64),
  number: z.int().min(0),
  text: z.string(),
});

/** Returns the longest sealed message whose text has `textBytes` bytes: base64url takes four for three. */
export function maxSealedLength(textBytes: number): number {
  return Math.ceil((textBytes * 4) / 3) + 2_048;
}

/** Seals a message for the process `to`. */
export function sealMessage(ring: KeyRing<'relay'>, to: string, message: RelayMessage): string {
  const content: z.infer<typeof relayMessage> = { v: 2, to, ...message };
  return sealBytes(ring, Buffer.from(JSON.stringify(content)));
}

/** Opens a message. @returns `null` if it is not from a replica of this deployment to the process `to` */
export function openMessage(
  ring: KeyRing<'relay'>,
  to: string,
  sealed: string,
  maxBytes: number,
): RelayMessage | null {
  try {
    const bytes = openBytes(ring, sealed, maxSealedLength(maxBytes));
    const {
      v: _v,
      to: receiver,
      ...message
    } = relayMessage.parse(parseJson(Buffer.from(bytes).toString('utf8')));
    return receiver === to ? message : null;
  } catch {
    return null;
  }
}

/** The text of a `retry`: the client's request, as the edge read it. */
export interface RelayedRequest {
  readonly route: string;
  readonly request: EdgeRequest;
}

/** A line for the client. */
export type RelayLine =
  | { readonly type: 'notification'; readonly method: string; readonly params: JsonObject }
  | { readonly type: 'answer'; readonly answer: CallReply };

/**
 * Writes a request. How its caller is known follows from the principal, and most callers name no conversation: so
 * replicas of earlier builds, which know neither, can read it.
 */
export function writeRequest({ route, request }: RelayedRequest): string {
  const { kind: _kind, conversation, ...caller } = request.caller;
  const written = conversation === null ? caller : { ...caller, conversation };
  return JSON.stringify({ route, request: { ...request, caller: written } });
}

/** Reads a request. @returns `null` if it is invalid */
export function readRequest(text: string): RelayedRequest | null {
  const read = readObject(text);
  if (typeof read?.['route'] !== 'string' || !isJsonObject(read['request'])) return null;
  const { route, request } = read as unknown as RelayedRequest;
  const { caller } = request;
  const known = {
    ...caller,
    kind: callerKindOf(caller),
    conversation: caller.conversation ?? null,
  };
  return { route, request: { ...request, caller: known } };
}

export function writeLine(line: RelayLine): string {
  return `${JSON.stringify(line)}\n`;
}

/** Reads a line, without its line feed. @returns `null` if it is invalid */
export function readLine(text: string): RelayLine | null {
  const read = readObject(text);
  const isLine =
    read?.['type'] === 'answer'
      ? isJsonObject(read['answer'])
      : read?.['type'] === 'notification' && isJsonObject(read['params']);
  return isLine ? (read as unknown as RelayLine) : null;
}

/**
 * Reads an object that a replica of this deployment wrote: it comes sealed, with a version. So its members are those
 * of that version, and each change of their types needs another one.
 */
function readObject(text: string): JsonObject | null {
  try {
    const value = parseJson(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}
