/**
 * How an outcome lies in the shared store: sealed with a key that only the client's pointer holds, so
 * that whoever reads the store learns nothing of it, and bound to its call, so that none can be moved.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { z } from 'zod';
import { callReply, type CallReply } from '../model/request.ts';
import type { CallId } from '../protocol/ids.ts';
import { parseJson } from '../protocol/json/parse.ts';

export interface OutcomeRecord {
  /** The round whose retry brought the outcome about. */
  readonly round: number;
  /**
   * See `answersDigest`: only the identical retry may have the outcome again. `null` when the server
   * ended the call by itself, so that no answer counted.
   */
  readonly answersDigest: string | null;
  readonly answer: CallReply;
}

const FORMAT = 1;
const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const HEADER_BYTES = 1 + NONCE_BYTES + TAG_BYTES;

const outcomeRecord = z.strictObject({
  round: z.int().min(1),
  answersDigest: z.string().min(1).nullable(),
  answer: callReply,
});

/** In: 32 bytes of key, the call, and its outcome. Out: bytes for the store. Throws for another key length. */
export function sealOutcome(key: Uint8Array, call: CallId, record: OutcomeRecord): Uint8Array {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce).setAAD(associatedData(call));
  const sealed = [cipher.update(JSON.stringify(record), 'utf8'), cipher.final()];
  return Buffer.concat([Buffer.of(FORMAT), nonce, cipher.getAuthTag(), ...sealed]);
}

/** In: what `sealOutcome` was given and returned. Out: the record, or `null` for anything else. */
export function openOutcome(
  key: Uint8Array,
  call: CallId,
  bytes: Uint8Array,
): OutcomeRecord | null {
  if (bytes.length < HEADER_BYTES || bytes[0] !== FORMAT) return null;
  const nonce = bytes.subarray(1, 1 + NONCE_BYTES);
  try {
    const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
      .setAAD(associatedData(call))
      .setAuthTag(bytes.subarray(1 + NONCE_BYTES, HEADER_BYTES));
    const opened = [decipher.update(bytes.subarray(HEADER_BYTES)), decipher.final()];
    const parsed = outcomeRecord.safeParse(parseJson(Buffer.concat(opened).toString('utf8')));
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}

/** The format is part of it, so that the first byte cannot be changed either. */
function associatedData(call: CallId): Buffer {
  return Buffer.from(`mrtr-gateway outcome ${FORMAT}\n${call}`);
}
