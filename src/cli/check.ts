/** `mrtr-gateway check FILE`: validates a configuration file. */
import { ConfigError } from '../config/load/problem.ts';
import { loadConfig } from '../config/load/load.ts';
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
