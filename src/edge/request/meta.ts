/** Reads the `_meta` of a modern request (basic/index, "Per-request protocol fields"). */
import { readProfile, type ClientProfile } from '../../protocol/translate/client-profile.ts';
import { isJsonObject, objectMember, type JsonObject } from '../../protocol/json/json.ts';
import { Meta, isProgressToken, type ProgressToken, isReserved } from '../../protocol/meta.ts';

export interface RequestMeta {
  readonly profile: ClientProfile;
  /** For display upstream and in logs. No decision depends on it. */
  readonly clientInfo: { readonly name: string; readonly version: string } | null;
  readonly logLevel: string | null;
  readonly progressToken: ProgressToken | null;
  /** The members that go upstream with the request: trace context and vendor keys. */
  readonly forwarded: JsonObject;
}

export type MetaReading =
  | { readonly type: 'read'; readonly meta: RequestMeta }
  | { readonly type: 'wrong'; readonly problem: string };

/** Reads the members of the envelope besides the version. Reports the first one that is wrong. */
export function readRequestMeta(meta: JsonObject): MetaReading {
  const capabilities = objectMember(meta, Meta.clientCapabilities);
  if (capabilities === undefined) return wrong(`"${Meta.clientCapabilities}" must be an object`);
  const info = meta[Meta.clientInfo];
  const clientInfo = readClientInfo(info);
  if (info !== undefined && clientInfo === null) {
    return wrong(`"${Meta.clientInfo}" must have a "name" and a "version" that are strings`);
  }
  const { progressToken } = meta;
  if (progressToken !== undefined && !isProgressToken(progressToken)) {
    return wrong('"progressToken" must be a string or an integer');
  }
  const logLevel = meta[Meta.logLevel];
  if (logLevel !== undefined && typeof logLevel !== 'string') {
    return wrong(`"${Meta.logLevel}" must be a string`);
  }
  return {
    type: 'read',
    meta: {
      profile: readProfile(capabilities),
      clientInfo,
      logLevel: logLevel ?? null,
      progressToken: progressToken ?? null,
      forwarded: Object.fromEntries(Object.entries(meta).filter(([name]) => !isReserved(name))),
    },
  };
}

/** Keeps only the members that every legacy revision has. */
function readClientInfo(info: unknown): { name: string; version: string } | null {
  if (!isJsonObject(info)) return null;
  const { name, version, title } = info;
  if (typeof name !== 'string' || typeof version !== 'string') return null;
  return typeof title === 'string' ? { name, version, ...{ title } } : { name, version };
}

function wrong(problem: string): MetaReading {
  return { type: 'wrong', problem };
}
