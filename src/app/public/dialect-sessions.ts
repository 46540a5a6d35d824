/** The emulated sessions of dialect clients: what they declared at `initialize`, sealed into `Mcp-Session-Id`. */
import { z } from 'zod';
import type { DialectName } from '../../dialects/dialects.ts';
import type { DialectPolicy } from '../../edge/request/dialect-request.ts';
import type { Caller } from '../../model/request.ts';
import { jsonObject, parseJson } from '../../protocol/json.ts';
import { SessionSeal } from '../../seal/session-seal.ts';
import type { SharedServices } from '../shared-services.ts';

/** How long a client can use what it declared, in ms. After that it is told to initialize again. */
const TTL_MS = 7 * 24 * 3_600_000;

const sealedSession = z.strictObject({
  protocolVersion: z.string(),
  capabilities: jsonObject,
  clientInfo: jsonObject.nullable(),
  expiresAtMs: z.number(),
});

/** Creates what seals and opens the sessions of one dialect on one route. */
export function dialectSessions(
  route: string,
  dialect: DialectName,
  { config, sealKeys, clock }: SharedServices,
): Pick<DialectPolicy, 'seal' | 'open'> {
  const { audience } = config.seal;
  const seal = new SessionSeal({ keys: sealKeys, audience, route: `${route}/${dialect}` });
  return {
    seal: (session, caller) => {
      const content = JSON.stringify({ ...session, expiresAtMs: clock.now() + TTL_MS });
      // The seal takes bytes as Latin-1.
      const bytes = Buffer.from(content).toString('latin1');
      return seal.seal('declared', bytes, ownerOf(caller));
    },
    open: (id, caller) => {
      const bytes = seal.open('declared', id, ownerOf(caller));
      if (bytes === null) return null;
      const { expiresAtMs, ...session } = sealedSession.parse(
        parseJson(Buffer.from(bytes, 'latin1').toString()),
      );
      return expiresAtMs > clock.now() ? session : null;
    },
  };
}

/** Credentials are refreshed while a human thinks: the session of a client that only they identify stays valid. */
function ownerOf({ kind, principalKey }: Caller): string {
  return kind === 'verified' ? `verified ${principalKey}` : kind;
}
