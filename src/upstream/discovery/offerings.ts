/** What a server that speaks both eras offers to modern clients only. */
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { Entry, Listings, ResourceEntry } from './listings.ts';

const LISTS = ['tools', 'prompts', 'resources', 'resourceTemplates'] as const;

/** Names of one kind. */
export interface Offering {
  readonly what: 'capabilities' | (typeof LISTS)[number];
  readonly names: readonly string[];
}

/** One side of a server. */
export interface Side extends Listings {
  readonly capabilities: JsonObject;
}

/** Returns what the modern side has and the legacy side has not. A list that could not be read is left out. */
export function onlyModern(modern: Side, legacy: Side): readonly Offering[] {
  const known = new Set(featuresOf(legacy.capabilities));
  const capabilities = featuresOf(modern.capabilities).filter((name) => !known.has(name));
  return [
    { what: 'capabilities', names: capabilities } as const,
    ...LISTS.map((what) => {
      const there = legacy[what];
      const isKnown = there.problem === null && !there.truncated;
      const knownNames = new Set(there.items.map(nameOf));
      const names = modern[what].items.map(nameOf);
      return { what, names: isKnown ? names.filter((name) => !knownNames.has(name)) : [] };
    }),
  ].filter(({ names }) => names.length > 0);
}

/** Returns capabilities and their flags by name, such as `resources.subscribe`. */
function featuresOf(capabilities: JsonObject): string[] {
  return Object.entries(capabilities).flatMap(([name, value]) => {
    const members = isJsonObject(value) ? Object.entries(value) : [];
    const on = members.filter(([, set]) => set !== false).map(([member]) => `${name}.${member}`);
    return [name, ...on];
  });
}

function nameOf(item: Entry | ResourceEntry): string {
  return 'uri' in item ? item.uri : item.name;
}
