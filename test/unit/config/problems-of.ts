/** Parses configuration texts in tests, and gives back the lines of the problems. */
import type { Config } from '../../../src/config/schema.ts';
import { ConfigError } from '../../../src/config/load/problem.ts';
import { parseConfig } from '../../../src/config/load/load.ts';

export const FILE = 'gateway.yaml';

export interface World {
  readonly env?: Record<string, string | undefined>;
  readonly files?: Record<string, string>;
}

export function configOf(text: string, { env = {}, files = {} }: World = {}): Config {
  return parseConfig(text, FILE, {
    env,
    readSecret(path) {
      const content = files[path];
      if (content === undefined) throw new Error(`expected a readable file, got "${path}"`);
      return content;
    },
  }).config;
}

/** The lines without the name of the file in front. Throws when there is no problem. */
export function problemsOf(text: string, world: World = {}): string[] {
  try {
    configOf(text, world);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.message.split('\n').map((line) => line.replace(`${FILE}:`, ''));
  }
  throw new Error('the configuration has no problem');
}

/** A configuration with one good route and what a test adds. */
export function withRoute(rest = '', route = ''): string {
  return `routes:\n  - upstream: {url: "http://127.0.0.1:3001/mcp"}\n${route}${rest}`;
}
