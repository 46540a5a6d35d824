/** What is valid in a configuration, and risky, or what the operator has to make true elsewhere. `check` prints it. */
import { existsSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';
import type { Config, RouteConfig } from '../schema.ts';
import { isLoopbackHost } from '../../lib/http.ts';
import type { Environment } from '../../lib/program.ts';
import { formatAddress } from '../../lib/address.ts';
import {
  KNOWN_CLIENTS,
  MAX_ROUNDS,
  MAX_STATE_ONLY,
  type KnownClient,
} from '../../model/known-clients.ts';
import { hasRights } from '../../limits/rights.ts';
import { adviseOnPrograms } from './exposed-secrets.ts';
import type { FieldPath, Problem } from './problem.ts';

/**
 * Lists the risks of a configuration.
 * @param isWritten tells whether the file has a value for a field
 * @param env of the gateway
 */
export function adviseOn(
  config: Config,
  isWritten: (path: FieldPath) => boolean,
  env: Environment,
): Problem[] {
  return [
    ...adviseOnListener(config),
    ...adviseOnActions(config),
    ...adviseOnKeys(config),
    ...adviseOnDrain(config, isWritten),
    ...adviseOnIdentity(config),
    ...adviseOnAnonymous(config),
    ...adviseOnPrograms(config, env),
    ...config.routes.flatMap((route, index) => [
      ...adviseOnCommand(route, index, env['PATH'] ?? ''),
      ...adviseOnHome(route, index),
      ...adviseOnCredentials(config, index, isWritten),
      ...adviseOnRates(config, route, index),
      ...adviseOnRelease(config, route, index),
      ...adviseOnRights(config, route, index),
      ...adviseOnRounds(route, index),
      ...adviseOnDialects(route, index),
    ]),
  ];
}

/** Proposals are translated for legacy servers. */
function adviseOnDialects({ dialects, upstream }: RouteConfig, index: number): Problem[] {
  const [name] = Object.entries(dialects).find(([, path]) => path !== null) ?? [];
  if (name === undefined || upstream.era !== 'modern') return [];
  const text = `the server speaks 2026-07-28 (upstream.era), so that clients on this path are refused: remove it`;
  return [{ path: ['routes', index, 'dialects', name], text }];
}

function adviseOnListener({ listen, identity, seal }: Config): Problem[] {
  if (isLoopbackHost(listen.host)) return [];
  const at = `${formatAddress(listen)} is open to the network`;
  const problems: Problem[] = [];
  if (identity.source === 'none') {
    const text = `${at}, and the gateway identifies nobody: set identity, or have a proxy authenticate callers`;
    problems.push({ path: ['listen'], text });
  }
  if (seal.keys.length === 0) {
    const text = `${at}, and no key is configured: parked calls end with the process ("mrtr-gateway keygen" prints a key)`;
    problems.push({ path: ['seal', 'keys'], text });
  }
  return problems;
}

function adviseOnActions({ admin, adminActions }: Config): Problem[] {
  if (adminActions === 'none' || admin === null || isLoopbackHost(admin.host)) return [];
  const text = `${formatAddress(admin)} is open to the network: anyone who reaches it can cancel calls: use a loopback address, or adminActions: none`;
  return [{ path: ['adminActions'], text }];
}

/** Who sets the time wants calls to outlive a deploy. Over stdio, a parked call ends with its process in any case. */
function adviseOnDrain(
  { drain, seal, routes }: Config,
  isWritten: (path: FieldPath) => boolean,
): Problem[] {
  const canSurvive = routes.some(({ upstream }) => upstream.process === null);
  const isWanted = drain.parkedMs > 0 && isWritten(['drain', 'parked']);
  if (!isWanted || seal.keys.length > 0 || !canSurvive) return [];
  const text =
    'no key is configured, so calls that are still parked after this time are lost: set seal.keys ("mrtr-gateway keygen" prints a key)';
  return [{ path: ['drain', 'parked'], text }];
}

function adviseOnKeys({ seal }: Config): Problem[] {
  return seal.keys.flatMap(({ key }, index) => {
    const bytes = Buffer.from(key, 'base64url');
    if (bytes.some((byte) => byte !== bytes[0])) return [];
    const text =
      'the key is one byte repeated, which anyone can guess: use one that "mrtr-gateway keygen" prints';
    return [{ path: ['seal', 'keys', index, 'key'], text }];
  });
}

function adviseOnIdentity({ identity, edge }: Config): Problem[] {
  if (identity.source === 'none') return [];
  if (identity.source === 'header') {
    if (edge.trustedProxies.length > 0) return [];
    const text = `whoever reaches the gateway can set ${identity.header}: list the proxies that set it in edge.trustedProxies`;
    return [{ path: ['identity', 'header'], text }];
  }
  const problems: Problem[] = [];
  const { url } = identity.jwks;
  if (url?.protocol === 'http:' && !isLoopbackHost(url.hostname)) {
    const text =
      'the keys are fetched without TLS: anyone who can change them in transit can forge tokens';
    problems.push({ path: ['identity', 'jwks', 'url'], text });
  }
  const { resourceMetadata, audiences } = identity;
  if (resourceMetadata === null) {
    const text =
      'without resourceMetadata, clients find only the authorization server that the upstream names, if it names one';
    problems.push({ path: ['identity'], text });
  } else if (!audiences.includes(resourceMetadata.resource)) {
    const text = `clients ask for tokens for ${JSON.stringify(resourceMetadata.resource)}, which is none of identity.audiences`;
    problems.push({ path: ['identity', 'resourceMetadata', 'resource'], text });
  }
  return problems;
}

/** Callers without credentials cannot be told apart behind a proxy, so not even the local user keeps a session. */
function adviseOnAnonymous({ listen, identity, edge, routes }: Config): Problem[] {
  const key = edge.trustedProxies.length > 0 ? 'trustedProxies' : 'allowedHosts';
  // The names of hosts count on loopback only.
  if (key === 'allowedHosts' && (edge[key].length === 0 || !isLoopbackHost(listen.host))) return [];
  const costs = ({ sessions, upstream }: RouteConfig) =>
    sessions.scope === null && upstream.era !== 'modern';
  const canBeAnonymous =
    identity.source === 'none' || (identity.source === 'jwt' && identity.mode === 'optional');
  if (!canBeAnonymous || !routes.some(costs)) return [];
  const text =
    'behind a proxy, callers without credentials get a session for each call, so each of their calls costs an initialize: configure identity, let callers send credentials, or accept it with sessions.scope: call';
  return [{ path: ['edge', key], text }];
}

function adviseOnRates(
  { identity, redis, workers, relay }: Config,
  { limits }: RouteConfig,
  index: number,
): Problem[] {
  const path = ['routes', index, 'limits'];
  const all = [
    { at: path, ...limits },
    ...Object.entries(limits.tools).map(([name, tool]) => ({
      at: [...path, 'tools', name],
      ...tool,
    })),
  ];
  const perPrincipal = all.find(({ ratePerPrincipal }) => ratePerPrincipal !== null);
  const limited = perPrincipal ?? all.find(({ rate }) => rate !== null);
  const problems: Problem[] = [];
  if (perPrincipal !== undefined && identity.source === 'none') {
    const text =
      'callers without credentials count as one principal, and any caller can invent credentials to count as another: set identity';
    problems.push({ path: [...perPrincipal.at, 'ratePerPrincipal'], text });
  }
  if (limited !== undefined && redis === null && (workers !== 1 || relay !== null)) {
    const text =
      'each replica and each worker counts separately, so together they let more requests through: configure redis to count over all of them';
    problems.push({ path: limited.at, text });
  }
  return problems;
}

/** Whoever may not use something on one path could use it on another one. */
function adviseOnRights({ routes }: Config, route: RouteConfig, index: number): Problem[] {
  const { url } = route.upstream;
  const isOpen = (other: RouteConfig) =>
    other.upstream.url?.href === url?.href && !hasRights(other);
  const at = hasRights(route) && url !== null ? routes.findIndex(isOpen) : -1;
  if (at < 0) return [];
  const text = `routes[${at}] reaches the same server without rules on tools, prompts and resources: give it some, or let nobody else use its path`;
  return [{ path: ['routes', index], text }];
}

/** What clients do with rounds is not in the configuration, and decides what these settings are good for. */
function adviseOnRounds({ calls, parking }: RouteConfig, index: number): Problem[] {
  const path = ['routes', index];
  const problems: Problem[] = [];
  if (calls.maxHoldMs !== null) {
    const text = `clients without tasks are told to retry ${MAX_STATE_ONLY} times in a call at most, and then wait to its end, since some end a call that they are told to retry more often: ${KNOWN_CLIENTS.flatMap(stands).join(', ')}. A longer timeout of the load balancer, or tasks, serve all of them`;
    problems.push({ path: [...path, 'calls', 'maxHold'], text });
  }
  if (parking.maxRounds > MAX_ROUNDS) {
    const text = `official clients end a call after ${MAX_ROUNDS} rounds or before: further ones are of use only to other clients, and calls that were left so wait for parking.ttl`;
    problems.push({ path: [...path, 'parking', 'maxRounds'], text });
  }
  return problems;
}

function stands({ client, stateOnly }: KnownClient): string[] {
  return stateOnly === null ? [] : [`${client} (${stateOnly} times)`];
}

function adviseOnRelease({ seal }: Config, { parking }: RouteConfig, index: number): Problem[] {
  if (parking.release === 'never' || seal.keys.length > 0) return [];
  const text =
    'no key is configured, so released calls end with the process: set seal.keys ("mrtr-gateway keygen" prints a key)';
  return [{ path: ['routes', index, 'parking', 'release'], text }];
}

function adviseOnCommand(
  { upstream: { process: server } }: RouteConfig,
  index: number,
  searchPath: string,
): Problem[] {
  if (server === null || !/\s/.test(server.command)) return [];
  const { command, env, cwd } = server;
  const folders = command.includes('/') ? [''] : (env['PATH'] ?? searchPath).split(delimiter);
  if (folders.some((folder) => existsSync(resolve(cwd ?? '', folder, command)))) return [];
  const text =
    'it has white space, and there is no program with this name: put the arguments into upstream.args';
  return [{ path: ['routes', index, 'upstream', 'command'], text }];
}

/** What a shell would replace at the beginning of a path. */
const OF_A_SHELL = /^(?:~\/|~$|\$HOME\b)/;

/** No shell reads a command, so that nothing becomes of the short forms of the home folder. */
function adviseOnHome({ upstream: { process: server } }: RouteConfig, index: number): Problem[] {
  if (server === null) return [];
  const { command, args, env, cwd } = server;
  const values: readonly (readonly [FieldPath, string | null])[] = [
    [['command'], command],
    [['cwd'], cwd],
    ...args.map((value, at) => [['args', at], value] as const),
    ...Object.entries(env).map(([name, value]) => [['env', name], value] as const),
  ];
  return values.flatMap(([path, value]) => {
    const [start] = OF_A_SHELL.exec(value ?? '') ?? [];
    if (start === undefined) return [];
    const text = `it begins with ${start}, which only a shell replaces, and no shell reads it: write \${HOME}, or the whole path`;
    return [{ path: ['routes', index, 'upstream', ...path], text }];
  });
}

function adviseOnCredentials(
  { routes, identity }: Config,
  index: number,
  isWritten: (path: FieldPath) => boolean,
): Problem[] {
  const upstream = routes[index]?.upstream;
  const path = ['routes', index, 'upstream', 'authorization'];
  if (upstream?.authorization !== 'forward' || !isWritten(path)) return [];
  if (upstream.headers['authorization'] !== undefined) {
    const text =
      "forward has no effect, since the Authorization of upstream.headers takes the place of the client's";
    return [{ path, text }];
  }
  if (identity.source !== 'jwt') return [];
  const text =
    'MCP forbids passing on a token that was issued for another resource: forward is right only if the server accepts the same audience';
  return [{ path, text }];
}

const CREDENTIAL_NAME = /key|token|auth|secret|session/;

/** Returns a line for each thing that a valid configuration says, and that the operator has to make true elsewhere. */
export function* notesOn({ routes, identity }: Config): Iterable<string> {
  for (const [index, { publicUrl, upstream }] of routes.entries()) {
    const at = `routes[${index}]`;
    if (publicUrl !== null) {
      yield `${at}.publicUrl: clients get tokens for ${publicUrl.href}; the server must accept this audience`;
    }
    for (const name of upstream.forwardHeaders) {
      if (!CREDENTIAL_NAME.test(name) || identity.credentialHeaders.includes(name)) continue;
      yield `${at}.upstream.forwardHeaders: if ${name} tells users apart, name it in identity.credentialHeaders, too`;
    }
  }
}
