/**
 * Which tools, prompts and resources a caller may use, by the rules of a route. What may not be used is refused before
 * anything of the request reaches the server; that lists leave it out is a courtesy.
 */
import type { Caller, ClaimValue, Grants } from '../model/request.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.ts';

/** What a request is for. */
export type TargetKind = 'tool' | 'prompt' | 'resource';

/** Allows what it names to callers whose token has all of these scopes and, of each of these claims, one of the values. */
interface Rule {
  readonly names: readonly string[];
  readonly scopes: readonly string[];
  readonly claims: Readonly<Record<string, readonly ClaimValue[]>>;
}

/** The rules for one kind. A name ends with `*` if it stands for all that begin with it. */
export interface KindRights {
  /** `null`: whether anything else is allowed depends on `rules`. */
  readonly allow: readonly string[] | null;
  /** Folded, see `foldedPattern`. */
  readonly deny: readonly string[];
  readonly rules: readonly Rule[] | null;
}

/** The rules of a route, as its configuration has them. */
export interface Rights {
  readonly tools: KindRights;
  readonly prompts: KindRights;
  readonly resources: KindRights;
}

export type Verdict =
  | { readonly type: 'allowed' }
  /** For this caller there is no such thing. */
  | { readonly type: 'hidden' }
  /** A token with all of these scopes would do. */
  | { readonly type: 'lacks-scopes'; readonly scopes: readonly string[] };

const ALLOWED: Verdict = { type: 'allowed' };
const HIDDEN: Verdict = { type: 'hidden' };

/** Longer than any name. What is decided takes time with its length. */
const MAX_NAME_CHARACTERS = 8_192;

const SECTIONS = { tool: 'tools', prompt: 'prompts', resource: 'resources' } as const;

/** Tells whether there is any rule for a kind. */
function isRestricted({ allow, deny, rules }: KindRights): boolean {
  return allow !== null || rules !== null || deny.length > 0;
}

/** Tells whether a route has any rule. */
export function hasRights({ tools, prompts, resources }: Rights): boolean {
  return [tools, prompts, resources].some(isRestricted);
}

/**
 * Decides whether a caller may use a tool, a prompt or a resource. What is allowed is compared exactly. What is denied is
 * compared folded, so that no other spelling of it is let through to a server that takes both for the same.
 * @param name of a tool or a prompt; the URI of a resource, or its template
 */
export function mayCall(
  rights: Rights,
  { grants }: Pick<Caller, 'grants'>,
  kind: TargetKind,
  name: string,
): Verdict {
  const ofKind = rights[SECTIONS[kind]];
  if (!isRestricted(ofKind)) return ALLOWED;
  const { allow, deny, rules } = ofKind;
  if (name.length > MAX_NAME_CHARACTERS) return HIDDEN;
  if (kind === 'resource' && isAmbiguous(name)) return HIDDEN;
  const spellings = deny.length === 0 ? [] : spellingsOf(kind, name);
  if (spellings.some((spelling) => names(deny, spelling))) return HIDDEN;
  if (allow === null && rules === null) return ALLOWED;
  return allow !== null && names(allow, name) ? ALLOWED : byRules(rules ?? [], grants, name);
}

/** Of several rules that only lack scopes, the one counts that lacks fewest. */
function byRules(rules: readonly Rule[], grants: Grants | undefined, name: string): Verdict {
  let [verdict, fewest] = [HIDDEN, Infinity];
  for (const { names: patterns, scopes, claims } of rules) {
    if (!names(patterns, name) || !hasClaims(grants, claims)) continue;
    const lacking = scopes.filter((scope) => grants?.scopes.has(scope) !== true).length;
    if (lacking === 0) return ALLOWED;
    if (lacking < fewest) [verdict, fewest] = [{ type: 'lacks-scopes', scopes }, lacking];
  }
  return verdict;
}

function hasClaims(grants: Grants | undefined, claims: Rule['claims']): boolean {
  return Object.entries(claims).every(([name, values]) =>
    grants?.claims.get(name)?.some((value) => values.includes(value)),
  );
}

function names(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) =>
    pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern,
  );
}

/** The member of the result of each list that holds its items, what they are, and what names one of them. */
const LISTS = [
  ['tools', 'tool', 'name'],
  ['prompts', 'prompt', 'name'],
  ['resources', 'resource', 'uri'],
  ['resourceTemplates', 'resource', 'uriTemplate'],
] as const;

/**
 * Leaves out of the result of a list what a caller may not use.
 * @returns the result itself if nothing is left out
 */
export function withoutHidden(
  rights: Rights,
  caller: Pick<Caller, 'grants'>,
  result: JsonObject,
): JsonObject {
  let shown = result;
  for (const [member, kind, key] of LISTS) {
    const items = Object.hasOwn(result, member) ? result[member] : undefined;
    if (!Array.isArray(items)) continue;
    const kept = items.filter((item: JsonValue) => {
      const name = isJsonObject(item) ? item[key] : undefined;
      return typeof name !== 'string' || mayCall(rights, caller, kind, name).type === 'allowed';
    });
    if (kept.length < items.length) shown = { ...shown, [member]: kept };
  }
  return shown;
}

/** Neither seen nor heard: controls, formats, what has no width, and blanks. */
const UNSEEN = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/gu;

/** Returns the one spelling of all that lax servers could take for the same: case, compatibility forms, blanks, zero width. */
function folded(text: string): string {
  const compatible = text.normalize('NFKC').replace(UNSEEN, '');
  // Each of the two keeps letters apart that the other has one spelling of, such as those for "s".
  return compatible.toLowerCase().toUpperCase().toLowerCase().normalize('NFKC');
}

/** Folds a name that is denied, as `mayCall` expects it. */
export function foldedPattern(kind: TargetKind, pattern: string): string {
  const isBeginning = pattern.endsWith('*');
  const text = isBeginning ? pattern.slice(0, -1) : pattern;
  const plain = kind === 'resource' ? plainUri(text) : folded(text);
  return isBeginning ? `${plain}*` : withoutEnd(kind, plain);
}

function spellingsOf(kind: TargetKind, name: string): readonly string[] {
  if (kind !== 'resource') return [folded(name)];
  const uri = plainUri(name);
  // Many servers ignore what follows the path.
  const path = uri.replace(/[?#;].*$/s, '');
  return [uri, path, withoutEnd(kind, uri), withoutEnd(kind, path)];
}

function withoutEnd(kind: TargetKind, text: string): string {
  return kind === 'resource' ? text.replace(/\/$/, '') : text;
}

/** Decoded and folded, with single slashes, and a file of this machine without the name of the machine. */
function plainUri(uri: string): string {
  const plain = folded(decoded(uri)).replaceAll(/\/+/g, '/');
  return plain.replace(/^file:\/(?:localhost|127\.0\.0\.1)\//, 'file:/');
}

/** A segment of dots, also one before a parameter, which some servers cut off. */
const DOTS = /(?:^|[/:])\.{1,2}(?:[/?#;]|$)/;
const ODD = /[\\\uFFFD\p{Cc}\p{Cf}]/u;

/** Tells whether two programs could take a URI for different resources. */
function isAmbiguous(uri: string): boolean {
  const plain = decoded(uri);
  // Encoded more often than anybody needs it.
  if (plain !== decodedOnce(plain)) return true;
  return [plain, plain.normalize('NFKC')].some((text) => DOTS.test(text) || ODD.test(text));
}

/** How often a text can be percent-encoded. */
const MAX_ENCODED = 3;

function decoded(uri: string): string {
  let text = uri;
  for (let times = 0; times < MAX_ENCODED; times += 1) text = decodedOnce(text);
  return text;
}

/** Decodes what is percent-encoded. What is no UTF-8 becomes a replacement character. */
function decodedOnce(uri: string): string {
  return uri.replace(/(?:%[0-9a-f]{2})+/gi, (bytes) =>
    Buffer.from(bytes.replaceAll('%', ''), 'hex').toString('utf8'),
  );
}
