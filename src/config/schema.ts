/**
 * The configuration file: every key with its type, default and description. The types of the configuration,
 * the reference in the documentation and the JSON Schema for editors are generated from it.
 */
import { z } from 'zod';
import { DIALECT_NAMES, DIALECTS, type DialectName } from '../dialects/dialects.ts';
import { address, addressOrOff, choice, orNull, section, text, NAME } from './schema/fields.ts';
import { edge } from './schema/edge.ts';
import { identity } from './schema/identity.ts';
import { drain, limits, log, workers, seal } from './schema/process.ts';
import { redis, relay } from './schema/replicas.ts';
import {
  caching,
  calls,
  continuation,
  parking,
  prompts,
  questions,
  resources,
  tools,
  routeLimits,
  tasks,
} from './schema/calls.ts';
import { MAX_PROCESSES, MAX_SESSIONS, sessions } from './schema/sessions.ts';
import { publicUrl, upstream } from './schema/upstream.ts';

const PATH = /^\/$|^(?!.*\/\.{1,2}(?:\/|$))(?:\/[A-Za-z0-9._~-]+)+$/;

const route = section(
  {
    id: text(NAME, 'a name (letters, digits, "_" and "-", at most 64)', 'name')
      .optional()
      .describe(
        'The name of the route in logs, metrics and sealed pointers. Default: derived from the path, `mcp` for `/mcp`.',
      ),
    path: text(PATH, 'a path such as /mcp, without a slash at its end', 'path')
      .default('/mcp')
      .describe('The public path.'),
    dialects: section(dialectOptions())
      .prefault({})
      .describe('Paths on which the wires of proposals are served, in addition to `path`.'),
    publicUrl: orNull(publicUrl),
    upstream,
    limits: routeLimits,
    sessions,
    calls,
    parking,
    continuation,
    tasks,
    questions,
    tools,
    prompts,
    resources,
    caching,
  },
  'a map with at least upstream',
).transform((read) => {
  const max = read.sessions.max ?? (read.upstream.process === null ? MAX_SESSIONS : MAX_PROCESSES);
  return { ...read, id: read.id ?? idFromPath(read.path), sessions: { ...read.sessions, max } };
});

/** Describes the path of each dialect that there is. */
function dialectOptions() {
  const path = (title: string) =>
    orNull(text(PATH, 'a path such as /drafts/first, without a slash at its end', 'path')).describe(
      `The path for ${title}.`,
    );
  type Paths = Record<DialectName, ReturnType<typeof path>>;
  return Object.fromEntries(
    DIALECT_NAMES.map((name) => [name, path(DIALECTS[name].title)]),
  ) as Paths;
}

/** Derives an id: `/teams/a/mcp` is `teams-a-mcp`, and `/` is `root`. */
function idFromPath(path: string): string {
  const name = path.replace(/[^A-Za-z0-9_]+/g, '-').replace(/^-+|-+$/g, '');
  return name === '' ? 'root' : name.slice(0, 64);
}

export const fileSchema = section(
  {
    listen: address()
      .prefault('127.0.0.1:8080')
      .describe(
        'The address for clients. `:8080` means all IPv4 interfaces, port `0` any free port. Changes need a restart.',
      ),
    admin: addressOrOff()
      .prefault('127.0.0.1:9464')
      .describe(
        'The address for `/healthz`, `/readyz`, `/metrics` and the live page. Keep it private. Changes need a restart.',
      ),
    adminActions: choice(
      ['none', 'cancel'],
      'none',
      'What can be done from the live page: `cancel` lets whoever reaches `admin` cancel a call that waits for its client.',
    ),
    workers,
    routes: z
      .array(route, { error: 'a list of at least one route' })
      .min(1, { error: 'a list of at least one route' })
      .max(1000, { error: 'at most 1000 routes' })
      .meta({ title: 'list' })
      .describe('One entry for each legacy server.'),
    identity,
    seal,
    relay,
    redis,
    edge,
    limits,
    drain,
    log,
  },
  'a map with at least routes',
).transform((read) => ({
  ...read,
  routes: read.routes.map((one) => ({
    ...one,
    upstream: {
      ...one.upstream,
      authorization:
        one.upstream.authorization ?? (read.identity.source === 'jwt' ? 'strip' : 'forward'),
    } as const,
  })),
}));

type Immutable<T> = T extends URL | string | number | boolean | null | undefined
  ? T
  : T extends readonly (infer Item)[]
    ? readonly Immutable<Item>[]
    : { readonly [Key in keyof T]: Immutable<T[Key]> };

export type Config = Immutable<z.output<typeof fileSchema>>;
export type RouteConfig = Config['routes'][number];
/** A server that is reached over HTTP. */
export type HttpUpstreamConfig = Extract<RouteConfig['upstream'], { readonly process: null }>;
/** A server that the gateway runs. */
export type StdioUpstreamConfig = Exclude<RouteConfig['upstream'], HttpUpstreamConfig>;

/** Returns the paths on which clients reach a route: its own first, then those of its dialects. */
export function publicPaths(route: RouteConfig): string[] {
  return [route.path, ...dialectPaths(route).map(([, path]) => path)];
}

/** Returns the dialects that a route has, with their paths. */
export function dialectPaths({ dialects }: RouteConfig): (readonly [DialectName, string])[] {
  return DIALECT_NAMES.flatMap((name) => {
    const path = dialects[name];
    return path === null ? [] : [[name, path] as const];
  });
}
