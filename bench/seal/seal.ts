/** Sealing and opening the `requestState` of a question, beside jose with a payload of the same size. */
import { CompactEncrypt, compactDecrypt } from 'jose';
import { callId, inputKey, serverRequestId } from '../../src/protocol/ids.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { createKeyRing } from '../../src/seal/key-ring.ts';
import { createSealer, type UnsealedPointer } from '../../src/seal/seal.ts';
import type { SealOptions } from '../sizes.ts';
import { median, ratio } from '../report/statistics.ts';

export interface SealResult {
  readonly samples: number;
  /** Of the token, in characters. */
  readonly length: number;
  /** To seal and to open once, in us. */
  readonly medianUs: number;
  readonly joseMedianUs: number;
  readonly toJose: number | null;
}

const REQUEST = {
  route: 'route',
  method: 'tools/call',
  target: 'ask',
  digest: 'd'.repeat(43),
  principal: 'p'.repeat(43),
};

export async function measureSeal({ warmUp, samples }: SealOptions): Promise<SealResult> {
  const secret = Buffer.alloc(32, 7);
  const ring = await createKeyRing([{ kid: 'bench', secret }], 'seal');
  const options = { ring, audience: 'bench', clock: systemClock, maxTokenBytes: 64 * 1_024 };
  const sealer = createSealer(options);
  const sealed = await sealer.seal(pointer());
  // Base64url of the claims is the longest part of the token by far.
  const payload = Buffer.alloc(Math.floor((sealed.length * 3) / 4), 'x');
  const own = async () => {
    await sealer.open(await sealer.seal(pointer()), REQUEST);
  };
  const jose = async () => {
    const token = await new CompactEncrypt(payload)
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid: 'bench' })
      .encrypt(secret);
    await compactDecrypt(token, secret);
  };
  const times: { own: number[]; jose: number[] } = { own: [], jose: [] };
  for (let round = 0; round < warmUp + samples; round += 1) {
    times.own.push(await timeUs(own));
    times.jose.push(await timeUs(jose));
  }
  const [medianUs, joseMedianUs] = [
    median(times.own.slice(warmUp)),
    median(times.jose.slice(warmUp)),
  ];
  const toJose = ratio(medianUs, joseMedianUs);
  return { samples, length: sealed.length, medianUs, joseMedianUs, toJose };
}

async function timeUs(work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return (performance.now() - startedAt) * 1_000;
}

/** A question with twelve fields. A longer one is compressed, which takes as long as all the rest. */
function pointer(): UnsealedPointer {
  const fields = Array.from({ length: 12 }, (_, index) => [
    `field-${index}`,
    {
      type: 'string',
      title: `Field ${index}`,
      description: 'What the user is to write here',
      maxLength: 200,
    },
  ]);
  const requestedSchema = { type: 'object', properties: Object.fromEntries(fields) };
  return {
    ...REQUEST,
    callId: callId('A'.repeat(22)),
    round: 1,
    owner: { id: 'bench', boot: 'B'.repeat(22) },
    expiresAtSeconds: Date.now() / 1_000 + 600,
    continuation: {
      startedAtMs: Date.now(),
      questions: [
        {
          key: inputKey('elicitation-1'),
          id: serverRequestId(1),
          request: {
            method: 'elicitation/create',
            params: { mode: 'form', message: 'Who is it?', requestedSchema },
          },
          back: { kind: 'elicitation-form', inverse: new Map() },
        },
      ],
      keys: { asked: 1, counts: { elicitation: 1 } },
      resume: null,
      replay: null,
    },
  };
}
