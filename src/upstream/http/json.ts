/** Reads bodies and JSON of a legacy server, within limits. */
import { excessOf, MAX_CONTAINERS, parseJson } from '../../protocol/json/parse.ts';
import type { JsonValue } from '../../protocol/json/json.ts';
import { UpstreamFailure } from '../failure.ts';

/** Far more than real results need, and far less than exhausts the stack when it is serialised again. */
const MAX_JSON_DEPTH = 500;

/**
 * Parses JSON.
 * @throws UpstreamFailure if it is not JSON, is nested too deeply, has too many objects, or sets a prototype
 */
export function upstreamJson(text: string): JsonValue {
  const excess = excessOf(text, MAX_JSON_DEPTH);
  if (excess !== null) {
    const problem =
      excess === 'depth'
        ? `it sent JSON nested more than ${MAX_JSON_DEPTH} levels deep`
        : `it sent JSON of more than ${MAX_CONTAINERS} objects and arrays`;
    throw new UpstreamFailure('upstream_protocol_error', problem, { mayHaveActed: true });
  }
  try {
    return parseJson(text);
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
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  /** @param onText called with the whole text */
  constructor(maxBytes: number, onText: (text: string) => void) {
    this.#maxBytes = maxBytes;
    this.#onText = onText;
  }

  /** @throws UpstreamFailure if the body is too large */
  write(chunk: Buffer): void {
    this.#bytes += chunk.byteLength;
    if (this.#bytes > this.#maxBytes) {
      const problem = `it sent a body larger than ${this.#maxBytes} bytes`;
      throw new UpstreamFailure('upstream_protocol_error', problem, { mayHaveActed: true });
    }
    this.#chunks.push(chunk);
  }

  end(): void {
    const [only] = this.#chunks;
    const bytes =
      this.#chunks.length === 1 && only !== undefined ? only : Buffer.concat(this.#chunks);
    this.#onText(bytes.toString('utf8'));
  }
}
