/** The dialects, by the names that the configuration has for them. */
import type { Codec } from './codec.ts';
import { firstDraft } from './first-draft.ts';
import { rewritten } from './rewritten.ts';
import { sagas } from './sagas.ts';
import { sep2322 } from './sep-2322.ts';

export interface Dialect {
  /** The proposal, for the description of its option. */
  readonly title: string;
  readonly codec: Codec;
}

export const DIALECTS = {
  'first-draft': { title: 'the first draft of multi round-trip requests', codec: firstDraft },
  'sep-2322': { title: 'SEP-2322 as it was approved', codec: sep2322 },
  rewritten: { title: 'the rewritten draft, without `resultType`', codec: rewritten },
  sagas: { title: 'tool call sagas', codec: sagas },
} satisfies Readonly<Record<string, Dialect>>;

export type DialectName = keyof typeof DIALECTS;
export const DIALECT_NAMES = Object.keys(DIALECTS) as readonly DialectName[];
