/**
 * What replicas say to each other: a client's retry as the edge read it, and back, line by line, what
 * the client is to be told.
 */
import { z } from 'zod';
import { callReply, type CallReply, type EdgeRequest } from '../../model/request.ts';
import { type JsonObject, jsonObject } from '../../protocol/json/json.ts';
import { parseJson } from '../../protocol/json/parse.ts';
import { isProgressToken, type ProgressToken } from '../../protocol/meta.ts';

export interface RelayRequest {
  readonly route: string;
  readonly request: EdgeRequest;
}

export type RelayLine =
  | { readonly type: 'notification'; readonly method: string; readonly params: JsonObject }
  | { readonly type: 'answer'; readonly answer: CallReply };

const progressToken = z.custom<ProgressToken>(isProgressToken);

const relayRequest = z.strictObject({
  route: z.string(),
  request: z.strictObject({
    method: z.string(),
    params: jsonObject,
    forwardedMeta: jsonObject,
    profile: z.strictObject({
      elicitationForm: z.boolean(),
      elicitationUrl: z.boolean(),
      sampling: z.boolean(),
      samplingTools: z.boolean(),
      samplingContext: z.boolean(),
      roots: z.boolean(),
      extensions: z.record(z.string(), jsonObject),
    }),
    clientInfo: jsonObject.nullable(),
    logLevel: z.string().nullable(),
    progressToken: progressToken.nullable(),
    inputResponses: jsonObject.nullable(),
    requestState: z.string().nullable(),
    caller: z.strictObject({
      principalKey: z.string(),
      principal: z.string().nullable(),
      credentialsKey: z.string(),
      headers: z.record(z.string(), z.string()),
    }),
  }),
});

const relayLine = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('notification'), method: z.string(), params: jsonObject }),
  z.strictObject({
    type: z.literal('answer'),
    answer: callReply,
  }),
]);

export function writeRelayRequest(message: RelayRequest): Buffer {
  return Buffer.from(JSON.stringify(message));
}

/** The message, or `null` when it is none (a replica of another version). */
export function readRelayRequest(body: Uint8Array): RelayRequest | null {
  return read(relayRequest, Buffer.from(body).toString('utf8'));
}

export function writeRelayLine(line: RelayLine): string {
  return `${JSON.stringify(line)}\n`;
}

/** The line, without its line feed, or `null` when it is none. */
export function readRelayLine(written: string): RelayLine | null {
  return read(relayLine, written);
}

function read<Message>(schema: z.ZodType<Message>, text: string): Message | null {
  try {
    const parsed = schema.safeParse(parseJson(text));
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}
