/**
 * What a message of a client is for: the tools, prompts and resources that it names. A message that a server could read in
 * another way than the gateway is not one that can be decided on, and is refused.
 */
import type { Caller } from '../model/request.ts';
import {
  caseless,
  isJsonObject,
  objectMember,
  type JsonObject,
  type JsonValue,
} from '../protocol/json.ts';
import { mayCall, type Rights, type TargetKind, type Verdict } from './rights.ts';

export interface Target {
  readonly kind: TargetKind;
  /** The URI of a resource. */
  readonly name: string;
}

type Targets =
  | { readonly type: 'targets'; readonly targets: readonly Target[] }
  /** No revision of MCP has it, so that nobody knows what it does. */
  | { readonly type: 'unknown-method' }
  | { readonly type: 'unclear'; readonly problem: string };

type TargetsOf = (params: JsonObject) => readonly Target[] | string;

const NONE: TargetsOf = () => [];

/** All requests and notifications that clients send by any revision from 2024-11-05 to 2026-07-28, and what they are for. */
const METHODS: Readonly<Record<string, TargetsOf>> = {
  initialize: NONE,
  ping: NONE,
  'server/discover': NONE,
  'logging/setLevel': NONE,
  'tools/list': NONE,
  'tools/call': named('tool', 'name'),
  'prompts/list': NONE,
  'prompts/get': named('prompt', 'name'),
  'resources/list': NONE,
  'resources/templates/list': NONE,
  'resources/read': named('resource', 'uri'),
  'resources/subscribe': named('resource', 'uri'),
  'resources/unsubscribe': named('resource', 'uri'),
  'completion/complete': completed,
  'subscriptions/listen': heard,
  'tasks/get': NONE,
  'tasks/list': NONE,
  'tasks/result': NONE,
  'tasks/update': NONE,
  'tasks/cancel': NONE,
  'notifications/initialized': NONE,
  'notifications/cancelled': NONE,
  'notifications/progress': NONE,
  'notifications/roots/list_changed': NONE,
  'notifications/tasks/status': NONE,
  'notifications/elicitation/complete': NONE,
};

/** The members that decide what a message is for. No other member can have one of these names in another spelling. */
const OF_MESSAGE = ['jsonrpc', 'id', 'method', 'params', 'result', 'error'];
const OF_PARAMS = ['name', 'uri', 'ref', 'notifications'];
const OF_REFERENCE = ['type', 'name', 'uri'];
const OF_FILTER = ['resourceSubscriptions'];
/** More than a listener can have: to decide on each takes time. */
const MAX_URIS = 1_000;

/**
 * Finds out what a message is for.
 * @param message a JSON-RPC message without duplicate members. One without a method is a response
 */
function targetsOf(message: JsonObject): Targets {
  const double = doubleOf(message, OF_MESSAGE);
  if (double !== null) return unclear(double);
  const { method, params = {} } = message;
  if (method === undefined) return { type: 'targets', targets: [] };
  const known = typeof method === 'string' && Object.hasOwn(METHODS, method);
  if (!known) return { type: 'unknown-method' };
  if (!isJsonObject(params)) return unclear('"params" must be an object');
  const found = doubleOf(params, OF_PARAMS) ?? METHODS[method]!(params);
  return typeof found === 'string' ? unclear(found) : { type: 'targets', targets: found };
}

function unclear(problem: string): Targets {
  return { type: 'unclear', problem };
}

function named(kind: TargetKind, member: 'name' | 'uri'): TargetsOf {
  return (params) => {
    const name = params[member];
    return typeof name === 'string' ? [{ kind, name }] : `"params.${member}" must be a string`;
  };
}

/** Whatever its type says, all that a reference names counts. */
function completed({ ref }: JsonObject): readonly Target[] | string {
  if (!isJsonObject(ref)) return '"params.ref" must be an object';
  const double = doubleOf(ref, OF_REFERENCE);
  if (double !== null) return double;
  const { type, name, uri } = ref;
  const member = type === 'ref/prompt' ? name : type === 'ref/resource' ? uri : undefined;
  if (typeof member !== 'string') {
    return '"params.ref" must be a ref/prompt with a "name", or a ref/resource with a "uri"';
  }
  return [...targetIn('prompt', name), ...targetIn('resource', uri)];
}

function heard(params: JsonObject): readonly Target[] | string {
  const filter = objectMember(params, 'notifications') ?? {};
  const double = doubleOf(filter, OF_FILTER);
  if (double !== null) return double;
  const { resourceSubscriptions: uris = [] } = filter;
  if (!Array.isArray(uris) || uris.length > MAX_URIS) {
    return `"resourceSubscriptions" must be a list of at most ${MAX_URIS} URIs`;
  }
  return uris.flatMap((uri) => targetIn('resource', uri));
}

function targetIn(kind: TargetKind, name: JsonValue | undefined): readonly Target[] {
  return typeof name === 'string' ? [{ kind, name }] : [];
}

/**
 * Finds a member that a lax decoder takes for one of those that count: that of Go ignores case, for instance.
 * @returns what is wrong, or `null`
 */
function doubleOf(object: JsonObject, members: readonly string[]): string | null {
  const found = Object.keys(object).find((key) =>
    members.some(
      (member) =>
        key !== member && key.length === member.length && caseless(key) === caseless(member),
    ),
  );
  return found === undefined ? null : `the member ${JSON.stringify(found)} is not allowed`;
}

/** Why a caller may not send a message. */
export type Denial =
  | Exclude<Targets, { readonly type: 'targets' }>
  | (Exclude<Verdict, { readonly type: 'allowed' }> & { readonly target: Target });

/**
 * Decides whether a caller may send a message: all that it is for must be allowed.
 * @returns `null` if it may
 */
export function denialOf(
  rights: Rights,
  caller: Pick<Caller, 'grants'>,
  message: JsonObject,
): Denial | null {
  const read = targetsOf(message);
  if (read.type !== 'targets') return read;
  for (const target of read.targets) {
    const verdict = mayCall(rights, caller, target.kind, target.name);
    if (verdict.type !== 'allowed') return { ...verdict, target };
  }
  return null;
}
