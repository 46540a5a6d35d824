/** Secrets of the configuration that are in the environment of the gateway, where programs of the same user can read them. */
import type { Environment } from '../../lib/program.ts';
import type { Config } from '../schema.ts';
import { isSecretField, type FieldPath, type Problem } from './problem.ts';

/** A shorter value is in too many texts to say anything. */
const MIN_CHARACTERS = 8;

/** Warns of each server over stdio that can read secrets other than its own. */
export function adviseOnPrograms(config: Config, env: Environment): Problem[] {
  return config.routes.flatMap(({ upstream: { process: server } }, index) => {
    if (server === null) return [];
    const names = variablesWith(secretsBeside(config, index), env);
    if (names.length === 0) return [];
    const text = `the program runs as the user of the gateway, so it can read ${names.join(', ')} in its environment (/proc), and all else that the gateway can read: trust it with that, or run it elsewhere and reach it by upstream.url`;
    return [{ path: ['routes', index, 'upstream', 'command'], text }];
  });
}

/** @returns the values that are secret, without those that the server of this route is given */
function secretsBeside(config: Config, index: number): string[] {
  const ofOthers = config.routes.flatMap(({ upstream }, other) =>
    other === index || upstream.process === null ? [] : Object.values(upstream.process.env),
  );
  return [...secretTexts(config, []), ...ofOthers];
}

function secretTexts(value: unknown, path: FieldPath): string[] {
  if (typeof value === 'string') return isSecretField(path) ? [value] : [];
  if (value instanceof URL) return isSecretField(path) ? [value.password] : [];
  if (typeof value !== 'object' || value === null) return [];
  const entries: [string | number, unknown][] = Array.isArray(value)
    ? [...value.entries()]
    : Object.entries(value);
  return entries.flatMap(([key, member]) => secretTexts(member, [...path, key]));
}

function variablesWith(secrets: readonly string[], env: Environment): string[] {
  const known = secrets.filter(({ length }) => length >= MIN_CHARACTERS);
  return Object.entries(env).flatMap(([name, value = '']) => {
    if (value.length < MIN_CHARACTERS) return [];
    const isThere = known.some((secret) => secret.includes(value) || value.includes(secret));
    return isThere ? [name] : [];
  });
}
