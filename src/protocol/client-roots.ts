/**
 * Keeps the roots of a client from a server (`upstream.roots: none`): some servers take them for the folders that they may use, on
 * their own machine. Three messages are concerned: what the client declares is cut out, its notices are not passed on, and the
 * server, which can ask all the same, is answered as by a client that has none.
 */
import { caseless, endOfString, endOfValue, skipSpace, type JsonValue } from './json.ts';
import { ErrorCode } from './json-rpc.ts';

/** The notice of a client after which a server asks again, whatever the client declared. */
const ROOTS_CHANGED = 'notifications/roots/list_changed';
/** The request with which a server asks. */
const LIST_ROOTS = 'roots/list';

/**
 * Returns a message of a client as the server gets it: the same text, unless it declares roots.
 * @param method of the message; anything else for a response
 * @returns `null` if the server does not get it
 */
export function clientMessageWithoutRoots(method: unknown, text: string): string | null {
  if (method === ROOTS_CHANGED) return null;
  return method === 'initialize' ? withoutRoots(text) : text;
}

/** Answers a request of the server in place of the client. @returns one line; `null` for a request that the client gets */
export function answerWithoutRoots(method: string, id: JsonValue): string | null {
  if (method !== LIST_ROOTS) return null;
  const error = { code: ErrorCode.methodNotFound, message: 'Method not found' };
  return JSON.stringify({ jsonrpc: '2.0', id, error });
}

/**
 * Cuts `params.capabilities.roots` out of an `initialize` request, also where it is spelled in another case, which some decoders
 * ignore. All other bytes stay as they are.
 * @param text JSON that was parsed before
 */
function withoutRoots(text: string): string {
  const kept: string[] = [];
  let at = 0;
  for (const { from, to } of cutsOf(text, text.indexOf('{'), ['params', 'capabilities', 'roots'])) {
    kept.push(text.slice(at, from));
    at = to;
  }
  return kept.join('') + text.slice(at);
}

interface Cut {
  readonly from: number;
  readonly to: number;
}

/** Finds the members on a path, with the commas that go with them. @param start of an object */
function cutsOf(text: string, start: number, path: readonly string[]): Cut[] {
  const [name, ...further] = path;
  const members = membersAt(text, start);
  const isNamed = (member: Member) => caseless(member.name) === name;
  if (further.length > 0) {
    const inner = members.filter((member) => isNamed(member) && text[member.value] === '{');
    return inner.flatMap(({ value }) => cutsOf(text, value, further));
  }
  const last = members.findLastIndex((member) => !isNamed(member));
  const cuts = members.slice(0, Math.max(last, 0)).flatMap((member, index) => {
    return isNamed(member) ? { from: member.from, to: members[index + 1]!.from } : [];
  });
  const [end, first] = [members.at(-1), members[0]];
  if (end === undefined || first === undefined || last === members.length - 1) return cuts;
  return [...cuts, { from: members[last]?.to ?? first.from, to: end.to }];
}

interface Member extends Cut {
  readonly name: string;
  /** Where its value begins. */
  readonly value: number;
}

/** Lists the members of an object. @param start of the object, within JSON */
function membersAt(text: string, start: number): Member[] {
  const members: Member[] = [];
  let at = skipSpace(text, start + 1);
  while (text[at] === '"') {
    const from = at;
    const nameEnd = endOfString(text, from) + 1;
    const value = skipSpace(text, skipSpace(text, nameEnd) + 1);
    const to = endOfValue(text, value);
    members.push({ name: String(JSON.parse(text.slice(from, nameEnd))), from, value, to });
    at = skipSpace(text, to);
    if (text[at] === ',') at = skipSpace(text, at + 1);
  }
  return members;
}
