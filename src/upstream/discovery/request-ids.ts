/**
 * The ids of our requests to a server. They are random, and unique over all sessions, processes and restarts, so that an id in
 * the wrong session is a proof. All ids of one session begin alike: a process that takes a session over recognizes the
 * replies to the process that had it before.
 */
import { randomId, randomInteger } from '../../lib/crypto.ts';
import { type UpstreamRequestId, upstreamRequestId } from '../../protocol/ids.ts';

/** How many numbers begin alike: half of the 52 bits below the highest one. */
const NUMBERS = 2 ** 26;
const TEXT_ID = /^mrtr-[\w-]{22}$/;
/** Of the 22 characters, half begin alike. */
const TEXT_HALF = 11;
const TEXT_START = 'mrtr-'.length + TEXT_HALF;

/**
 * The ids of one session, and its identity. It is no reference to the session: ids are remembered for long after it is
 * over, and would keep it in memory.
 */
export class SessionIds {
  /** When none is left, the session continues with numbers that begin otherwise. */
  #numbers = newNumbers();
  readonly #textStart = `mrtr-${randomId()}`.slice(0, TEXT_START);

  /** Returns an exact integer of 53 bits, so that a server that cuts ids to 32 bits is noticed at once. */
  nextNumber(): UpstreamRequestId {
    if (this.#numbers.left === 0) this.#numbers = newNumbers();
    const numbers = this.#numbers;
    numbers.left -= 1;
    numbers.last = (numbers.last + numbers.step) % NUMBERS;
    return upstreamRequestId(numbers.start + numbers.last);
  }

  /** Returns a string of characters that every server accepts. */
  nextText(): UpstreamRequestId {
    return upstreamRequestId(`${this.#textStart}${randomId().slice(0, TEXT_HALF)}`);
  }
}

/** With an odd step each number comes once, and other clients of the server cannot guess the next one. */
function newNumbers() {
  const random = randomInteger();
  const last = random % NUMBERS;
  return { start: random - last, last, step: (randomInteger() % NUMBERS) | 1, left: NUMBERS };
}

/** True if a process that had the session of `own` can have issued the id. By chance, one of 67 million of others fits. */
export function isOfSameSession(own: UpstreamRequestId, id: unknown): boolean {
  if (!hasGatewayIdForm(id)) return false;
  if (typeof own === 'number' && typeof id === 'number') {
    return Math.floor(own / NUMBERS) === Math.floor(id / NUMBERS);
  }
  return String(own).slice(0, TEXT_START) === String(id).slice(0, TEXT_START);
}

/** True if only a gateway can have issued the id: other clients count from 0, or use other strings. */
export function hasGatewayIdForm(id: unknown): id is UpstreamRequestId {
  if (typeof id === 'string') return TEXT_ID.test(id);
  return Number.isSafeInteger(id) && Number(id) >= 2 ** 52;
}

/**
 * True if a server without 64-bit integers made `theirs` of `ours`: truncated, signed or unsigned, or the
 * largest value. Servers with an old rmcp do this.
 */
export function isCutTo32Bits(ours: UpstreamRequestId, theirs: unknown): boolean {
  if (typeof ours !== 'number') return false;
  return [ours % 2 ** 32, ours | 0, 2 ** 32 - 1, 2 ** 31 - 1].some((cut) => cut === theirs);
}
