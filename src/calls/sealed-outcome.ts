/**
 * Outcomes in the shared store: sealed with a key that only the client's pointer holds, so that a reader of the
 * store learns nothing, and bound to the id of the call, so that no other call can get one.
 */
import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Directory } from '../model/store.ts';
import { callReply, type CallReply, type EdgeRequest } from '../model/request.ts';
import type { CallId } from '../protocol/ids.ts';
import { parseJson } from '../protocol/json.ts';
import { decrypt, encrypt, NONCE_BYTES, TAG_BYTES } from '../seal/envelope.ts';
import { answersDigest } from '../seal/digests.ts';
import type { Pointer } from '../seal/pointer.ts';

const FORMAT = 1;
const HEADER_BYTES = 1 + NONCE_BYTES + TAG_BYTES;

const outcomeRecord = z.strictObject({
  /** The round whose retry led to the outcome. */
  round: z.int().min(1),
  /**
   * See `answersDigest`: only the identical retry gets the outcome. `null` if the server ended the call
   * while no client was connected, so that no answer counted.
   */
  answersDigest: z.string().min(1).nullable(),
  reply: callReply,
});
export type OutcomeRecord = z.infer<typeof outcomeRecord>;

/**
 * Fetches the outcome that a retry asks for.
 * @returns `null` if the store has none, or one for another round or other answers
 * @throws DirectoryUnavailable
 */
export async function fetchOutcome(
  directory: Directory,
  { callId, outcomeKey, round }: Pointer,
  { inputResponses, inputErrors }: Pick<EdgeRequest, 'inputResponses' | 'inputErrors'>,
): Promise<CallReply | null> {
  if (outcomeKey === undefined) return null;
  const sealed = await directory.read(callId, 'outcome');
  if (sealed === null) return null;
  const record = openOutcome(Buffer.from(outcomeKey, 'base64url'), callId, sealed);
  if (record?.round !== round) return null;
  const digest = record.answersDigest;
  const given = () => answersDigest(inputResponses, inputErrors);
  return digest === null || digest === given() ? record.reply : null;
}

/**
 * Seals an outcome for the store.
 * @param key 32 bytes
 * @throws if the key has another length
 */
export function sealOutcome(key: Uint8Array, call: CallId, record: OutcomeRecord): Uint8Array {
  const nonce = randomBytes(NONCE_BYTES);
  const content = Buffer.from(JSON.stringify(record));
  const context = { key, nonce, associatedData: associatedDataOf(call) };
  const { sealed, tag } = encrypt(content, context);
  return Buffer.concat([Buffer.of(FORMAT), nonce, tag, sealed]);
}

/** Opens what `sealOutcome` returned for this key and call. @returns `null` for anything else */
export function openOutcome(
  key: Uint8Array,
  call: CallId,
  bytes: Uint8Array,
): OutcomeRecord | null {
  if (bytes.length < HEADER_BYTES || bytes[0] !== FORMAT) return null;
  const nonce = bytes.subarray(1, 1 + NONCE_BYTES);
  try {
    const tag = bytes.subarray(1 + NONCE_BYTES, HEADER_BYTES);
    const context = { key, nonce, associatedData: associatedDataOf(call) };
    const opened = decrypt(bytes.subarray(HEADER_BYTES), tag, context);
    const parsed = outcomeRecord.safeParse(parseJson(opened.toString('utf8')));
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}

/** Binds the call and the format, so that the first byte cannot be changed either. */
function associatedDataOf(call: CallId): Buffer {
  return Buffer.from(`mrtr-gateway outcome ${FORMAT}\n${call}`);
}
