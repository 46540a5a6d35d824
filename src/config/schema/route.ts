/** One entry of `routes`: a public path and the legacy server behind it. */
import { caching, calls, continuation, parking, questions, tools } from './calls.ts';
import { section, text, NAME } from './fields.ts';
import { sessions } from './sessions.ts';
import { upstream } from './upstream.ts';

const PATH = /^\/$|^(?!.*\/\.{1,2}(?:\/|$))(?:\/[A-Za-z0-9._~-]+)+$/;

export const route = section(
  {
    id: text(NAME, 'a name (letters, digits, "_" and "-", at most 64)', 'name')
      .optional()
      .describe(
        'The name of the route in logs, metrics and sealed pointers. Default: derived from the path, `mcp` for `/mcp`.',
      ),
    path: text(PATH, 'a path such as /mcp, without a slash at its end', 'path')
      .default('/mcp')
      .describe('The public path.'),
    upstream,
    sessions,
    calls,
    parking,
    continuation,
    questions,
    tools,
    caching,
  },
  'a map with at least upstream.url',
).transform((read) => ({ ...read, id: read.id ?? idFromPath(read.path) }));

/** Derives an id: `/teams/a/mcp` is `teams-a-mcp`, and `/` is `root`. */
function idFromPath(path: string): string {
  const name = path.replace(/[^A-Za-z0-9_]+/g, '-').replace(/^-+|-+$/g, '');
  return name === '' ? 'root' : name.slice(0, 64);
}
