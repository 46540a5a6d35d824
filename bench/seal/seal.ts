/**
 * Sealing and opening the `requestState` of a question, beside the sealer of another version, and beside jose with a
 * payload of the same size.
 */
import { CompactEncrypt, compactDecrypt } from 'jose';
import { callId, inputKey, serverRequestId } from '../../src/protocol/ids.ts';
import { systemClock } from '../../src/lib/clock.ts';
import type * as KeyRings from '../../src/seal/key-ring.ts';
import type * as Seals from '../../src/seal/seal.ts';
import type { UnsealedPointer } from '../../src/seal/seal.ts';
import { CHECKOUT } from '../processes/gateway-process.ts';
import type { SealOptions } from '../sizes.ts';
import { median, ratio } from '../report/statistics.ts';

export interface SealResult {
  readonly samples: number;
  /** Of the token, in characters. */
  readonly length: number;
  /** To seal and to open once, in us. */
  readonly medianUs: number;
  /** `null` without another version. */
  readonly earlierMedianUs: number | null;
  readonly toEarlier: number | null;
  readonly joseMedianUs: number;
  readonly toJose: number | null;
}

/** How many of one kind are timed before the next kind is, so that the code of a kind is warm. */
const TURN = 50;

const SECRET = Buffer.alloc(32, 7);
const REQUEST = {
  route: 'route',
  method: 'tools/call',
  target: 'ask',
  digest: 'd'.repeat(43),
  principal: 'p'.repeat(43),
};

export async function measureSeal(
  { warmUp, samples }: SealOptions,
  earlier: URL | null,
): Promise<SealResult> {
  const sealer = await sealerOf(CHECKOUT);
  const sealed = await sealer.seal(pointer());
  // Base64url of the claims is the longest part of the token by far.
  const payload = Buffer.alloc(Math.floor((sealed.length * 3) / 4), 'x');
  const own = new Timed(sealAndOpen(sealer));
  const before = earlier === null ? null : new Timed(sealAndOpen(await sealerOf(earlier)));
  const jose = new Timed(async () => {
    const token = await new CompactEncrypt(payload)
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid: 'bench' })
      .encrypt(SECRET);
    await compactDecrypt(token, SECRET);
  });
  for (let turn = 0; turn < Math.ceil((warmUp + samples) / TURN); turn += 1) {
    for (const one of [own, before, jose]) await one?.take(TURN);
  }
  const medianUs = own.medianUs(warmUp);
  const joseMedianUs = jose.medianUs(warmUp);
  const earlierMedianUs = before?.medianUs(warmUp) ?? null;
  return {
    samples,
    length: sealed.length,
    medianUs,
    earlierMedianUs,
    toEarlier: earlierMedianUs === null ? null : ratio(medianUs, earlierMedianUs),
    joseMedianUs,
    toJose: ratio(medianUs, joseMedianUs),
  };
}

/** The part of a sealer that all versions have. Some do it at once. */
interface AnySealer {
  seal(pointer: UnsealedPointer): string | Promise<string>;
  open(requestState: string, expected: typeof REQUEST): unknown;
}

/** Loads the sealer of a version from its checkout. */
async function sealerOf(checkout: URL): Promise<AnySealer> {
  const { createKeyRing } = (await import(
    new URL('src/seal/key-ring.ts', checkout).href
  )) as typeof KeyRings;
  const { createSealer } = (await import(
    new URL('src/seal/seal.ts', checkout).href
  )) as typeof Seals;
  const ring = createKeyRing([{ kid: 'bench', secret: SECRET }], 'seal');
  return createSealer({ ring, audience: 'bench', clock: systemClock, maxTokenBytes: 64 * 1_024 });
}

function sealAndOpen(sealer: AnySealer): () => Promise<void> {
  const one = pointer();
  return async () => {
    await sealer.open(await sealer.seal(one), REQUEST);
  };
}

class Timed {
  readonly #work: () => Promise<void>;
  readonly #timesUs: number[] = [];

  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  async take(count: number): Promise<void> {
    for (let done = 0; done < count; done += 1) {
      const startedAt = performance.now();
      await this.#work();
      this.#timesUs.push((performance.now() - startedAt) * 1_000);
    }
  }

  medianUs(warmUp: number): number {
    return median(this.#timesUs.slice(warmUp));
  }
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
    owner: { id: 'bench', instance: 'B'.repeat(22) },
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
