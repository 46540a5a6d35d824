/**
 * The capabilities of a client. Modern requests declare them each time (basic/index, "Per-request protocol
 * fields"); legacy servers expect them once, at `initialize`.
 */
import { isJsonObject, objectMember, type JsonObject } from '../json.ts';
import type { LegacyRevision } from '../meta.ts';
import { clientExtensions, declaresExtension, TASKS, type Extensions } from './extensions.ts';

export interface ClientProfile {
  readonly elicitationForm: boolean;
  readonly elicitationUrl: boolean;
  readonly sampling: boolean;
  readonly samplingTools: boolean;
  readonly samplingContext: boolean;
  readonly roots: boolean;
  /** Whether the client declares the tasks extension. It concerns the gateway, and no server. */
  readonly tasks?: true;
  /** Those that are declared to servers. */
  readonly extensions: Extensions;
}

/** The profile of a client that declares nothing. */
export const EMPTY_PROFILE: ClientProfile = {
  elicitationForm: false,
  elicitationUrl: false,
  sampling: false,
  samplingTools: false,
  samplingContext: false,
  roots: false,
  extensions: {},
};

/** Reads declared capabilities. `elicitation: {}` means form mode only (elicitation, "Capabilities"). */
export function readProfile(capabilities: JsonObject): ClientProfile {
  const elicitation = objectMember(capabilities, 'elicitation');
  const sampling = objectMember(capabilities, 'sampling');
  const elicitationForm =
    elicitation !== undefined &&
    (isJsonObject(elicitation['form']) || Object.keys(elicitation).length === 0);
  return {
    elicitationForm,
    elicitationUrl: elicitation !== undefined && isJsonObject(elicitation['url']),
    sampling: sampling !== undefined,
    samplingTools: sampling !== undefined && isJsonObject(sampling['tools']),
    samplingContext: sampling !== undefined && isJsonObject(sampling['context']),
    roots: objectMember(capabilities, 'roots') !== undefined,
    ...(declaresExtension(capabilities, TASKS) ? { tasks: true } : {}),
    extensions: clientExtensions(capabilities, { elicitationForm }),
  };
}

const KEY_NAMES = [
  ['elicitationForm', 'form'],
  ['elicitationUrl', 'url'],
  ['sampling', 'sampling'],
  ['samplingTools', 'sampling.tools'],
  ['samplingContext', 'sampling.context'],
  ['roots', 'roots'],
] as const;

/** Writes a profile as canonical text, for keys of pools and caches. */
export function profileKey(profile: ClientProfile): string {
  let key = '';
  for (const [member, name] of KEY_NAMES) if (profile[member]) key += `+${name}`;
  for (const id in profile.extensions) key += `+${JSON.stringify([id, profile.extensions[id]])}`;
  return key.slice(1);
}

/**
 * Writes the `capabilities` of a legacy `initialize` for a profile.
 * Declaring too little is as wrong as declaring too much: servers skip a confirmation that they cannot ask
 * for. `roots.listChanged` is declared only if the gateway itself tells the server of roots, since no modern client does;
 * `tasks` never is: the gateway does not host them. Up to 2025-06-18 `elicitation` itself means form mode, so it is not declared to such a
 * server for a client that supports URLs only.
 * @param revision of the server; `null` if it is unknown
 * @param tellsRoots whether the server is told when the roots are known
 */
export function legacyCapabilities(
  profile: ClientProfile,
  revision: LegacyRevision | null,
  tellsRoots = false,
): JsonObject {
  const capabilities: JsonObject = {};
  const elicitation: JsonObject = {};
  if (profile.elicitationForm) elicitation['form'] = {};
  if (profile.elicitationUrl) elicitation['url'] = {};
  const presenceMeansForm = revision !== null && revision < '2025-11-25';
  if (profile.elicitationForm || (profile.elicitationUrl && !presenceMeansForm)) {
    capabilities['elicitation'] = elicitation;
  }
  if (profile.sampling) {
    const sampling: JsonObject = {};
    if (profile.samplingTools) sampling['tools'] = {};
    if (profile.samplingContext) sampling['context'] = {};
    capabilities['sampling'] = sampling;
  }
  if (profile.roots) capabilities['roots'] = tellsRoots ? { listChanged: true } : {};
  if (Object.keys(profile.extensions).length > 0) {
    capabilities['extensions'] = { ...profile.extensions };
  }
  return capabilities;
}
