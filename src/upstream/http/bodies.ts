/** Reads the bodies of a legacy server within limits as one JSON text. The parser has no limits by default. */
import type { HeldBytes } from '../../lib/byte-budget.ts';
import {
  excessOf,
  MAX_CONTAINERS,
  parseMessage,
  type JsonExcess,
  type JsonValue,
} from '../../protocol/json.ts';
import { UpstreamFailure, type UpstreamLimit } from '../../model/upstream-failure.ts';
import { exceededLimit, tooLarge, UNBOUNDED } from '../size-limits.ts';

/** Far more than real results need, and a quarter of what exhausts the stack when it is serialised again. */
const MAX_JSON_DEPTH = 1_000;
const EXCEEDED: Readonly<Record<JsonExcess, UpstreamLimit>> = {
  depth: `at most ${MAX_JSON_DEPTH} levels of objects and arrays`,
  containers: `at most ${MAX_CONTAINERS} objects and arrays`,
};

/**
 * Parses JSON.
 * @throws UpstreamFailure if it is not JSON, is nested too deeply, or has too many objects
 */
export function upstreamJson(text: string): JsonValue {
  const excess = excessOf(text, MAX_JSON_DEPTH);
  if (excess !== null) throw tooLarge('it sent JSON that is too large', EXCEEDED[excess]);
  try {
    return parseMessage(text);
  } catch (cause) {
    throw new UpstreamFailure('upstream_protocol_error', 'it sent a body that is not JSON', {
      mayHaveActed: true,
      cause,
    });
  }
}

/** A body that is read as one text. */
export class TextBody {
  readonly #maxBytes: number;
  readonly #onText: (text: string) => void;
  readonly #limit: 'upstream.maxEvent' | null;
  readonly #held: HeldBytes;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  /**
   * @param onText called with the whole text
   * @param limit the key of `maxBytes`, if that can be configured
   * @param held what the body takes until it is whole
   */
  constructor(
    maxBytes: number,
    onText: (text: string) => void,
    limit: 'upstream.maxEvent' | null = null,
    held = UNBOUNDED,
  ) {
    this.#held = held;
    this.#maxBytes = maxBytes;
    this.#onText = onText;
    this.#limit = limit;
  }

  /** @throws UpstreamFailure if the body is too large */
  write(chunk: Buffer): void {
    this.#bytes += chunk.byteLength;
    const isTooLarge = this.#bytes > this.#maxBytes;
    if (isTooLarge || !this.#held.hold(this.#bytes)) {
      const limit = isTooLarge ? this.#limit : 'limits.maxMemoryPercent';
      const exceeds = limit && exceededLimit(limit, this.#maxBytes, null);
      throw tooLarge('it sent a body that is too large', exceeds);
    }
    this.#chunks.push(chunk);
  }

  end(): void {
    this.#onText(Buffer.concat(this.#chunks).toString('utf8'));
  }
}
