/**
 * The opener of pointers: no token opens but those that were sealed, and a content that is no pointer is refused even under a
 * right tag. It fails in no other way.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { CARRIED, sealBytes } from '../../../src/seal/envelope.ts';
import { InvalidRequestState } from '../../../src/seal/invalid-request-state.ts';
import { createKeyRing } from '../../../src/seal/key-ring.ts';
import { decodePointer, encodePointer } from '../../../src/seal/pointer-bytes.ts';
import type { Pointer } from '../../../src/seal/pointer.ts';
import { createSealer, type Sealer } from '../../../src/seal/seal.ts';
import { callId, inputKey, serverRequestId } from '../../../src/protocol/ids.ts';
import { mutated } from '../mutations.ts';
import { target } from '../target.ts';

const NOW_MS = 1_790_000_000_000;
const MAX_TOKEN_BYTES = 32 * 1024;
const REQUEST = {
  route: 'mcp',
  method: 'tools/call',
  target: 'deploy',
  digest: 'd'.repeat(43),
  principal: 'p'.repeat(43),
};
const PLAIN: Pointer = {
  ...REQUEST,
  audience: 'fleet',
  callId: callId('c'.repeat(22)),
  round: 1,
  owner: { id: 'replica', instance: 'instance', address: 'http://10.0.0.7:8081' },
  issuedAtSeconds: NOW_MS / 1000,
  expiresAtSeconds: NOW_MS / 1000 + 600,
};
const POINTERS: readonly Pointer[] = [PLAIN, asking('Who?'), asking('Who are you? '.repeat(300))];
const TOKEN_PARTS = ['.', '..', '=', '+', '/', '\n', '_', '-', 'A', 'eyJhbGciOiJub25lIn0'];
const CONTENT_PARTS = ['null', '{}', '[]', '"', '-1', '1e999', '"v":9', '"__proto__":', '\n', '\0'];

export const pointer = target('pointer', 800, () => {
  const secret = new Uint8Array(32).fill(7);
  const ring = createKeyRing([{ kid: 'fuzz', secret }], 'seal');
  const clock = { now: () => NOW_MS };
  const sealer = createSealer({ ring, audience: 'fleet', clock, maxTokenBytes: MAX_TOKEN_BYTES });
  const tokens = POINTERS.map((one) => sealer.seal(one));
  const contents = POINTERS.map((one) => Buffer.from(encodePointer(one)).toString('latin1'));
  const token = mutated(tokens, TOKEN_PARTS).map((text) => ({ kind: 'token', text }) as const);
  const content = mutated(contents, CONTENT_PARTS).map(
    (text) => ({ kind: 'content', text }) as const,
  );
  return {
    inputs: fc.oneof(token, content),
    check({ kind, text }) {
      if (kind === 'token') {
        assert(opened(sealer, text) === null || tokens.includes(text), 'it opened');
        return;
      }
      const bytes = Buffer.from(text, 'latin1');
      const read = opened(sealer, sealBytes(ring, CARRIED, bytes));
      assert.deepEqual(read, read === null ? null : decodePointer(bytes));
      // What can be read can be sealed again, and says the same.
      if (read === null) return;
      const again = encodePointer(read);
      assert(typeof again !== 'string', `read, and not sealed again: ${String(again)}`);
      assert.deepEqual(decodePointer(again), read);
    },
    stop: async () => {},
  };
});

/** @returns `null` if the token is refused */
function opened({ open }: Sealer, text: string): Pointer | null {
  try {
    return open(text, REQUEST);
  } catch (error) {
    assert(error instanceof InvalidRequestState, `another failure: ${String(error)}`);
    return null;
  }
}

function asking(message: string): Pointer {
  return {
    ...PLAIN,
    continuation: {
      startedAtMs: NOW_MS,
      questions: [
        {
          key: inputKey('elicitation-1'),
          id: serverRequestId(0),
          request: { method: 'elicitation/create', params: { message } },
          back: { kind: 'elicitation-form', inverse: new Map() },
        },
      ],
      keys: { asked: 1, counts: { elicitation: 1 } },
      resume: null,
      replay: null,
    },
  };
}
