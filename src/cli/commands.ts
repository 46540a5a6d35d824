/** The commands that need no more than a function: `check FILE` validates a configuration file, `keygen` generates a key. */
import { ConfigError } from '../config/load/problem.ts';
import { loadConfig } from '../config/load/load.ts';
import { generateKey, type SecretKey } from '../seal/key-ring.ts';
import type { Environment } from './arguments.ts';

export interface CheckResult {
  readonly good: boolean;
  /** One line if the file is valid, otherwise one for each problem, without the last newline. */
  readonly text: string;
}

export function check(file: string, env: Environment): CheckResult {
  try {
    const { length } = loadConfig(file, env).routes;
    return { good: true, text: `${file}: ok (${length} ${length === 1 ? 'route' : 'routes'})` };
  } catch (error) {
    if (error instanceof ConfigError) return { good: false, text: error.message };
    throw error;
  }
}

/** Formats a key as two lines for `seal.keys`. It is quoted, since YAML reads a name of digits as a number. */
export function keygen(key: SecretKey = generateKey()): string {
  const secret = Buffer.from(key.secret).toString('base64url');
  return `    # under seal.keys\n    - kid: "${key.kid}"\n      key: "${secret}"\n`;
}
