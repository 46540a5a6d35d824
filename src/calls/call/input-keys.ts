/**
 * The keys under which clients see the questions of a call. They are readable and stable: the operator's names
 * for the tool, else the server's request id if that is a plain name, else kind and number.
 */
import { inputKey, type InputKey, type ServerRequestId } from '../../protocol/ids.ts';
import type { InputRequestKind } from '../../protocol/translate/input-request.ts';
import type { KeyCounters } from '../../seal/pointer.ts';

const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/;
const KIND_NAMES: Readonly<Record<InputRequestKind, string>> = {
  'elicitation-form': 'elicitation',
  'elicitation-url': 'elicitation',
  'openai-form': 'elicitation',
  sampling: 'sampling',
  roots: 'roots',
};

export interface InputKeyOptions {
  /** Names for this tool's questions, in the order in which it asks. */
  readonly names: readonly string[];
  /** Whether a text contains the session id, from which some servers build their ids. */
  readonly revealsSession: (text: string) => boolean;
}

/** A key, and whether the operator or the server named it. Others are generated. */
export interface GivenKey {
  readonly key: InputKey;
  readonly isNamed: boolean;
}

export class InputKeys {
  readonly #given = new Set<string>();
  #counts = new Map<string, number>();
  #asked = 0;

  /** The counters, for another replica that continues the call. */
  get progress(): KeyCounters {
    return { asked: this.#asked, counts: Object.fromEntries(this.#counts) };
  }

  /** Continues the counters of another replica, so that no number is given twice. */
  goOnFrom({ asked, counts }: KeyCounters): void {
    this.#asked = asked;
    this.#counts = new Map(Object.entries(counts));
  }

  /** Makes a key that no other question of this call has had. */
  next(kind: InputRequestKind, id: ServerRequestId | null, options: InputKeyOptions): GivenKey {
    const named: string | null = options.names[this.#asked] ?? nameFromId(id, options);
    this.#asked += 1;
    const isNamed = named !== null && !this.#given.has(named);
    const key = isNamed ? named : this.#counted(kind);
    this.#given.add(key);
    return { key: inputKey(key), isNamed };
  }

  /** Makes such a key for a question of the gateway. The names of the operator are for those of the server. */
  nextOwn(kind: InputRequestKind): GivenKey {
    const key = this.#counted(kind);
    this.#given.add(key);
    return { key: inputKey(key), isNamed: false };
  }

  /** Marks a key as given, so that no other question gets it. */
  take(key: InputKey): void {
    this.#given.add(key);
  }

  #counted(kind: InputRequestKind): string {
    const name = KIND_NAMES[kind];
    for (;;) {
      const count = (this.#counts.get(name) ?? 0) + 1;
      this.#counts.set(name, count);
      const key = `${name}-${count}`;
      if (!this.#given.has(key)) return key;
    }
  }
}

function nameFromId(id: ServerRequestId | null, options: InputKeyOptions): string | null {
  if (typeof id !== 'string') return null;
  return PLAIN_NAME.test(id) && !options.revealsSession(id) ? id : null;
}
