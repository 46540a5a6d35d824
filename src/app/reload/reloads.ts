/** Applies one configuration after the other, whole or not at all, and keeps what became of the last one. */
import { isDeepStrictEqual } from 'node:util';
import { ConfigError } from '../../config/load/problem.ts';
import type { Config } from '../../config/schema.ts';
import type { Clock } from '../../lib/clock.ts';
import { StartFailure } from '../../lib/program.ts';
import type { Log } from '../../ops/log.ts';
import type { ReloadState } from '../../ops/gauges.ts';
import { InvalidKeyRing } from '../../seal/key-ring.ts';

/** A configuration that can be put in force at once. */
export interface Prepared {
  commit(): void;
  abandon(): Promise<void>;
}

export interface ReloadsOptions {
  /** @throws StartFailure, InvalidKeyRing or ConfigRefused for a configuration that cannot be used */
  readonly prepare: (config: Config) => Promise<Prepared>;
  readonly clock: Clock;
  readonly log: Log;
}

export class Reloads {
  readonly #options: ReloadsOptions;
  #config: Config;
  #state: ReloadState;
  #last: Promise<unknown> = Promise.resolve();
  #isStopped = false;

  /** @param config that is in force */
  constructor(config: Config, options: ReloadsOptions) {
    this.#config = config;
    this.#options = options;
    this.#state = { isSuccessful: true, succeededAtMs: options.clock.now() };
  }

  readonly state = (): ReloadState => this.#state;

  /**
   * Loads a configuration and puts it in force, after earlier reloads. If it cannot be used, nothing changes. Never
   * rejects.
   * @param load throws ConfigError for an invalid configuration
   * @returns whether it is in force
   */
  reload(load: () => Config): Promise<boolean> {
    const reloaded = this.#last.then(() => this.#reload(load));
    this.#last = reloaded;
    return reloaded;
  }

  /** Changes nothing from here on. */
  stop(): void {
    this.#isStopped = true;
  }

  async #reload(load: () => Config): Promise<boolean> {
    if (this.#isStopped) return false;
    try {
      const next = load();
      const changes = changesOf(this.#config, next);
      const problems = [
        ...fixedFieldsIn(this.#config, next),
        ...renamedPathsOf(this.#config, next),
      ];
      if (problems.length > 0) throw new ConfigRefused(problems);
      const prepared = await this.#options.prepare(next);
      if (this.#isStopped) {
        await prepared.abandon();
        return false;
      }
      prepared.commit();
      this.#config = next;
      this.#state = { isSuccessful: true, succeededAtMs: this.#options.clock.now() };
      this.#options.log.event('config.reloaded', changes);
      return true;
    } catch (error) {
      this.#state = { ...this.#state, isSuccessful: false };
      for (const problem of problemsOf(error))
        this.#options.log.event('config.refused', { problem });
      return false;
    }
  }
}

/** Thrown if a configuration cannot be used. */
export class ConfigRefused extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('; '));
    this.name = 'ConfigRefused';
    this.problems = problems;
  }
}

/** Returns why a configuration cannot be used, one line for each problem. */
export function problemsOf(error: unknown): readonly string[] {
  if (error instanceof ConfigRefused) return error.problems;
  if (error instanceof ConfigError) return error.message.split('\n');
  if (error instanceof InvalidKeyRing) return [`seal.keys: ${error.message}`];
  if (error instanceof StartFailure) return [error.message];
  return [error instanceof Error ? `${error.name}: ${error.message}` : String(error)];
}

type Field = readonly [key: string, value: (config: Config) => unknown];

/** What a process has from its start on. */
const FIXED: readonly Field[] = [
  ['listen', ({ listen }) => listen],
  ['admin', ({ admin }) => admin],
  ['workers', ({ workers }) => workers],
  ['relay', ({ relay }) => relay],
  ['redis', ({ redis }) => redis],
  ['seal.audience', ({ seal }) => seal.audience],
  // A key that was generated, or none, is what the process and its relay began with.
  ['seal.keys', ({ seal }) => seal.keys.length > 0],
  ['log.format', ({ log }) => log.format],
];

/** Relays limit their messages by the limit of bodies. */
const OF_RELAYS: Field = ['limits.maxBody', ({ limits }) => limits.maxBodyBytes];

/** @returns the problem with fields that changed and cannot, if there are any */
function fixedFieldsIn(earlier: Config, next: Config): string[] {
  const hasRelays = earlier.relay !== null || earlier.workers !== 1;
  const changed = (hasRelays ? [...FIXED, OF_RELAYS] : FIXED)
    .filter(([, value]) => !isDeepStrictEqual(value(earlier), value(next)))
    .map(([name]) => name);
  if (changed.length === 0) return [];
  return [
    `${changed.join(', ')}: cannot change without a restart; restart the gateway, or undo the change`,
  ];
}

/** A pointer names its route, and a retry comes on the path: the route that has the path now could not open it. */
function renamedPathsOf(earlier: Config, next: Config): string[] {
  const ids = new Map(earlier.routes.map(({ path, id }) => [path, id]));
  return next.routes.flatMap(({ path, id }, index) => {
    const before = ids.get(path) ?? id;
    if (before === id) return [];
    return `routes[${index}].id: ${path} was the path of "${before}", whose parked calls "${id}" cannot continue; keep the id, or choose another path`;
  });
}

/** What can change beside routes. */
const SETTINGS = ['adminActions', 'identity', 'edge', 'limits', 'drain', 'seal', 'log'] as const;

function changesOf(earlier: Config, next: Config) {
  const idsOf = ({ routes }: Config) => new Map(routes.map((route) => [route.id, route]));
  const [before, after] = [idsOf(earlier), idsOf(next)];
  const kept = [...after].filter(([id]) => before.has(id));
  return {
    added: [...after.keys()].filter((id) => !before.has(id)).join(', '),
    changed: kept
      .flatMap(([id, route]) => (isDeepStrictEqual(before.get(id), route) ? [] : id))
      .join(', '),
    removed: [...before.keys()].filter((id) => !after.has(id)).join(', '),
    settings: SETTINGS.filter((name) => !isDeepStrictEqual(earlier[name], next[name])).join(', '),
  };
}
