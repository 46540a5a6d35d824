/** The address to listen on that the surroundings of the process set. */
import type { Environment } from '../../lib/program.ts';

/** The container image sets it: nothing outside a container can reach its loopback. */
export const LISTEN_DEFAULT_VARIABLE = 'MRTR_GATEWAY_LISTEN_DEFAULT';

/**
 * Reads the address to listen on if no flag, variable or file sets it.
 * @returns an address as written, or `undefined` for the default of the schema
 */
export function listenDefault(env: Environment): string | undefined {
  return env[LISTEN_DEFAULT_VARIABLE] || undefined;
}
