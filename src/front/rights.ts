/** How clients are told that the rules of a route do not allow them a message. */
import type { UnnamedRefusal } from '../edge/response-writer.ts';
import { METHOD_NOT_FOUND } from '../edge/request/methods.ts';
import type { Config } from '../config/schema.ts';
import { scopeRefusalOf, type ChallengeOptions } from '../identity/challenge.ts';
import type { TargetKind } from '../limits/rights.ts';
import type { Denial } from '../limits/targets.ts';
import type { Caller } from '../model/request.ts';
import type { JsonObject } from '../protocol/json.ts';
import { ErrorCode } from '../protocol/json-rpc.ts';
import type { Route } from '../routes/route.ts';
import { resourceOf } from './own-metadata.ts';

/** Of 2025-11-25 and older ("Error Handling" of resources). The final revision has -32602. */
const RESOURCE_NOT_FOUND = -32002;

/** What a server says of something that it does not have ("Error Handling" of tools, prompts and resources). */
const UNKNOWN: Readonly<Record<TargetKind, string>> = {
  tool: 'Unknown tool',
  prompt: 'Unknown prompt',
  resource: 'Resource not found',
};

/** Returns how a challenge of a route leads clients to tokens. @param path on which they come */
export function challengeOf(config: Config, path: string): ChallengeOptions {
  return {
    metadataUrl: resourceOf(config, path)?.metadataUrl ?? null,
    requiredScopes: config.identity.source === 'jwt' ? config.identity.requiredScopes : [],
  };
}

/**
 * Creates the check of the messages of a route's clients.
 * @param path on which they come: that of the route, or of one of its dialects
 * @returns a function that returns how a message is refused, or `null`. Its `params` have no duplicate members
 */
export function rightsCheck(
  { rights }: Pick<Route, 'rights'>,
  config: Config,
  path: string,
): (caller: Caller, message: JsonObject, era: 'modern' | 'legacy') => UnnamedRefusal | null {
  if (rights === null) return () => null;
  const challenge = challengeOf(config, path);
  return (caller, message, era) => {
    const denial = rights.denialOf(caller, message);
    return denial === null ? null : refusalOf(denial, caller, era, challenge);
  };
}

function refusalOf(
  denial: Denial,
  { grants }: Caller,
  era: 'modern' | 'legacy',
  challenge: ChallengeOptions,
): UnnamedRefusal {
  const isLegacy = era === 'legacy';
  switch (denial.type) {
    case 'unknown-method':
      // To a legacy client 404 means that its session is over.
      return isLegacy ? { ...METHOD_NOT_FOUND, httpStatus: 200 } : METHOD_NOT_FOUND;
    case 'unclear': {
      const message = `Invalid request: ${denial.problem}`;
      return { httpStatus: 400, error: { code: ErrorCode.invalidRequest, message } };
    }
    case 'lacks-scopes': {
      const hasToken = grants !== undefined;
      const { httpStatus, message, headers } = scopeRefusalOf(denial.scopes, hasToken, challenge);
      return { httpStatus, headers, error: { code: ErrorCode.invalidRequest, message } };
    }
    case 'hidden': {
      const { kind, name } = denial.target;
      const code = isLegacy && kind === 'resource' ? RESOURCE_NOT_FOUND : ErrorCode.invalidParams;
      return { httpStatus: 200, error: { code, message: `${UNKNOWN[kind]}: ${name}` } };
    }
  }
}
