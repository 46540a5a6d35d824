/** Which field of the configuration a flag sets. To know it takes no schema: most commands load none. */
import { type FieldPath, formatPath } from './problem.ts';

/** The fields that flags set. */
export const FIELDS = {
  upstream: ['routes', 0, 'upstream', 'url'],
  stdio: ['routes', 0, 'upstream', 'command'],
  env: ['routes', 0, 'upstream', 'env'],
  listen: ['listen'],
  admin: ['admin'],
  workers: ['workers'],
  path: ['routes', 0, 'path'],
  'public-url': ['routes', 0, 'publicUrl'],
  transport: ['routes', 0, 'upstream', 'transport'],
  'upstream-header': ['routes', 0, 'upstream', 'headers'],
  'max-event': ['routes', 0, 'upstream', 'maxEvent'],
  'session-scope': ['routes', 0, 'sessions', 'scope'],
  'seal-key': ['seal', 'keys'],
  'seal-key-file': ['seal', 'keys'],
  'log-level': ['log', 'level'],
  'log-format': ['log', 'format'],
} as const satisfies Readonly<Record<string, FieldPath>>;
export type FlagName = keyof typeof FIELDS;

/** Flags that can be combined with `--config`. They override the file. */
export const OVERRIDES = ['listen', 'admin', 'workers', 'log-level', 'log-format'] as const;
export type Overrides = Pick<FlagValues, (typeof OVERRIDES)[number]>;

/** A server over stdio: what is given after `--`, and with `--env`. */
export interface CommandValues {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

type Texts = Omit<Record<FlagName, string>, 'upstream' | 'stdio' | 'env' | 'upstream-header'>;
/** The values as written. Omitted ones have their defaults. `seal-key`: keys as `KID:KEY`, of which the first one seals. */
export interface FlagValues extends Readonly<Partial<Texts>> {
  readonly upstream: string | CommandValues;
  readonly 'upstream-header'?: Readonly<Record<string, string>>;
}

/** Names the field that a file has for a flag. @returns `null` for a flag that counts beside a file, or sets no field */
export function fieldInFile(flag: string): string | null {
  const path = Object.entries(FIELDS).find(([name]) => name === flag)?.[1];
  if (path === undefined || OVERRIDES.some((other) => other === flag)) return null;
  return formatPath(path).replace('[0]', '[]');
}
