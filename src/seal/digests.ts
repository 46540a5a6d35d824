/** Digests that identify requests, answers, questions and principals without keeping them. */
import { createHmac } from 'node:crypto';
import {
  canonicalJson,
  isJsonObject,
  objectMember,
  without,
  type JsonObject,
} from '../protocol/json.ts';
import type { InputErrors } from '../protocol/json-rpc.ts';
import { OPENAI_FORMS } from '../protocol/translate/extensions.ts';
import type { InputRequest } from '../protocol/translate/input-request.ts';
import { LruMap } from '../lib/containers.ts';
import { sha256 } from '../lib/crypto.ts';

/** Members that a retry must or may change. They are not part of what is asked for. */
const CHANGES_BETWEEN_ROUNDS: readonly string[] = ['_meta', 'inputResponses', 'requestState'];

/**
 * Identifies a client's request, so that a pointer is bound to it (MRTR, server requirement 5).
 * Vendor members count. Absent `arguments` equal empty ones, since some clients drop empty objects.
 * @returns SHA-256 as base64url, the same for the first request and its faithful retries
 */
export function requestDigest(method: string, params: JsonObject): string {
  const salient = without({ arguments: {}, ...params }, CHANGES_BETWEEN_ROUNDS);
  return sha256(canonicalJson({ method, params: salient }));
}

/**
 * Identifies the answers of a retry. A client that lost our response sends the same answers again and
 * must get the same outcome; other answers to a used round are refused.
 * @param inputResponses of the retry; `null` equals `{}`
 * @returns SHA-256 as base64url, whatever the order of the members. The answers cannot be read from it.
 */
export function answersDigest(
  inputResponses: JsonObject | null,
  inputErrors?: InputErrors,
): string {
  const responses = inputResponses ?? {};
  if (inputErrors === undefined) return sha256(canonicalJson(responses));
  const errors = Object.entries(inputErrors).map(([key, error]) => [key, { ...error }] as const);
  return sha256(canonicalJson([responses, Object.fromEntries(errors)]));
}

/**
 * Identifies a question across replays of its call: by all that the client sees of it, except `_meta`, where servers put what differs
 * each time. Of that only the schema of one of OpenAI's forms counts.
 * @returns SHA-256 as base64url
 */
export function questionDigest({ method, params }: InputRequest): string {
  const { _meta, ...shown } = params;
  const form = isJsonObject(_meta) ? objectMember(_meta, OPENAI_FORMS) : undefined;
  const schema = form?.['requestedSchema'];
  return sha256(canonicalJson({ method, params: shown, ...(schema !== undefined && { schema }) }));
}

/**
 * Names a principal in pointers and keys. Tags can be compared, and reveal nothing.
 * @param key shared by all replicas, and kept when sealing keys are rotated
 * @param principal the verified identity of the caller; `null` for an anonymous one
 * @returns HMAC-SHA-256 as base64url, or `null` for an anonymous caller, which equals no principal
 */
export function principalTag(key: string, principal: string | null): string | null {
  if (principal === null) return null;
  // As JSON text: UTF-8 turns all unpaired surrogates into the same character.
  const text = JSON.stringify(principal);
  const name = `${text} ${key}`;
  let tag = tags.get(name);
  if (tag === undefined) {
    tag = createHmac('sha256', key).update(text).digest('base64url');
    tags.set(name, tag);
  }
  return tag;
}

/** The tags of the last callers: each request of a call needs one, and an HMAC takes longer than the other digests. */
const tags = new LruMap<string, string>(1_000);
