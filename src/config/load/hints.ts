/** What an operator most likely meant with a key that is not known at its place. */
import { type SchemaNode, resolvedSchema } from '../schema/json-schema.ts';
import { type FieldPath, formatPath, nearest } from './problem.ts';

const CLIENT_FILE =
  'this block is for clients. Write routes: [{upstream: {url: "http://HOST:PORT/mcp"}}], or command and args of the server in place of its url';
/** Keys of other programs, which people paste. */
const PASTED: ReadonlyMap<string, string> = new Map([
  ['mcpServers', CLIENT_FILE],
  ['servers', CLIENT_FILE],
]);

/**
 * Explains an unknown key.
 * @param path of the map that has it
 * @param schemas of the maps around it, from the whole file on, with its own as the last
 * @returns the hint, and whether it shows a key that resembles this one
 */
export function hintFor(
  key: string,
  path: FieldPath,
  schemas: readonly (SchemaNode | undefined)[],
): { readonly text: string; readonly isKnown: boolean } {
  if (/^\/[/*]/.test(key)) return { text: 'comments begin with #', isKnown: false };
  const known = Object.keys(schemas.at(-1)?.properties ?? {});
  const home = homeOf(key, path, schemas);
  const meant = nearest(key, known);
  if (meant !== null) return { text: `did you mean "${meant}"?`, isKnown: true };
  if (home !== null) {
    return { text: `it belongs to ${home}: check the indentation`, isKnown: true };
  }
  const pasted = PASTED.get(key);
  if (pasted !== undefined) return { text: pasted, isKnown: true };
  return {
    text: known.length === 0 ? 'no key is expected here' : `expected one of ${known.join(', ')}`,
    isKnown: false,
  };
}

/** Finds the map around the key, or the one in it, that knows the key. */
function homeOf(
  key: string,
  path: FieldPath,
  schemas: readonly (SchemaNode | undefined)[],
): string | null {
  const within = path.length === 0 ? ROUTE : path;
  const schema =
    path.length === 0 ? resolvedSchema().properties?.['routes']?.items : schemas.at(-1);
  if (path.length === 0 && knows(schema, key)) return formatPath(ROUTE);
  const member = Object.entries(schema?.properties ?? {}).find(([, node]) => knows(node, key));
  if (member !== undefined) return formatPath([...within, member[0]]);
  const around = schemas.slice(0, -1).findLastIndex((node) => knows(node, key));
  if (around < 0) return null;
  return around === 0 ? 'the top level' : formatPath(path.slice(0, around));
}

const ROUTE: FieldPath = ['routes', 0];

function knows(node: SchemaNode | undefined, key: string): boolean {
  return Object.hasOwn(node?.properties ?? {}, key);
}
