/**
 * What clients do with the rounds of a call, as far as it is known. docs/clients.md has the same table, with where it is known from:
 * a test compares them.
 */
import type { JsonObject } from '../protocol/json.ts';

/** What is known of a client. Clients of one SDK have the names that their applications give them. */
export interface KnownClient {
  readonly client: string;
  /** Its `clientInfo.name`; `null` if that does not tell it. */
  readonly name: string | null;
  /** How many rounds without a question it stands in one call; `null` if it counts them as any others. */
  readonly stateOnly: number | null;
  /** How many rounds of both kinds it stands in one call; `null` if that is not known. */
  readonly rounds: number | null;
}

export const KNOWN_CLIENTS: readonly KnownClient[] = [
  {
    client: 'Claude on the web, the desktop and Cowork',
    name: 'Anthropic/ClaudeAI',
    stateOnly: 0,
    rounds: null,
  },
  { client: 'Go SDK', name: null, stateOnly: 2, rounds: 9 },
  { client: 'TypeScript SDK 2', name: null, stateOnly: null, rounds: 10 },
  { client: 'Python SDK 2', name: null, stateOnly: null, rounds: 10 },
];

/** The least that a client stands whose name tells nothing of it. */
const leastOf = (limits: readonly (number | null)[]) =>
  Math.min(...limits.filter((limit) => limit !== null));
const UNNAMED = KNOWN_CLIENTS.filter(({ name }) => name === null);

/** How many rounds without a question every official client stands in one call. */
export const MAX_STATE_ONLY = leastOf(UNNAMED.map(({ stateOnly }) => stateOnly));

/** How many rounds of both kinds every official client stands in one call. */
export const CLIENT_ROUNDS = leastOf(UNNAMED.map(({ rounds }) => rounds));

/** How many rounds any of the official clients stands in one call. */
export const MAX_ROUNDS = Math.max(...UNNAMED.map(({ rounds }) => rounds ?? 0));

/**
 * Returns how many rounds without a question a client can be given in one call.
 * @param clientInfo what it says of itself
 */
export function maxStateOnlyOf(clientInfo: JsonObject | null): number {
  const name = clientInfo?.['name'];
  const known = KNOWN_CLIENTS.find((client) => client.name !== null && client.name === name);
  return known?.stateOnly ?? MAX_STATE_ONLY;
}
