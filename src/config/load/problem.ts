/** What is wrong with one field of a configuration, before it is known from where the field came. */
import { type FieldPath } from './field-path.ts';

export interface Problem {
  readonly path: FieldPath;
  /** True when the problem is the key itself, not its value. */
  readonly atKey?: boolean;
  /** One line without secrets. */
  readonly text: string;
}
