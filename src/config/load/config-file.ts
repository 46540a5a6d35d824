/** A configuration file that is loaded again when it changes, or a file that it refers to. */
import { readlinkSync, watch, type FSWatcher } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { sha256 } from '../../lib/crypto.ts';
import type { Clock, Timer } from '../../lib/clock.ts';
import type { Config } from '../schema.ts';
import { loadConfig, readableText, type LoadedConfig } from './load.ts';
import type { FieldPath } from './problem.ts';
import type { ReferenceSources } from './references.ts';

/** Files are written in several steps, and swapped with others. How long to wait for the last one, in ms. */
const DEBOUNCE_MS = 250;
/** How long to wait at most while a folder keeps changing, in ms. */
const MAX_DEBOUNCE_MS = 2_000;
/** How often the files are read anyway, in ms: not every file system reports changes. */
const POLL_MS = 60_000;
/** No file system follows more links in a row. */
const MAX_LINKS = 40;

export class ConfigFile {
  readonly #file: string;
  readonly #env: ReferenceSources['env'];
  readonly #clock: Clock;
  /** Digests of all files that were read last, since they can contain secrets; `null` for one that could not be read. */
  #read: ReadonlyMap<string, string | null> = new Map();
  #loaded: LoadedConfig | null = null;
  #watchers: readonly FSWatcher[] = [];
  #timer: Timer | null = null;
  #poll: Timer | null = null;
  #noticedAtMs: number | null = null;

  /** @param env resolves `${NAME}` references */
  constructor(file: string, env: ReferenceSources['env'], clock: Clock) {
    this.#file = file;
    this.#env = env;
    this.#clock = clock;
  }

  /** @throws ConfigError */
  load(): Config {
    const read = new Map<string, string | null>();
    this.#read = read;
    const onRead = (file: string, text: string | null) => void read.set(file, digestOf(text));
    this.#loaded = loadConfig(this.#file, this.#env, onRead);
    return this.#loaded.config;
  }

  /** The names of the environment variables that the file referred to when it was loaded last. */
  get variables(): ReadonlySet<string> {
    return this.#loaded?.variables ?? new Set();
  }

  /** Tells whether the file had a value for a field when it was loaded last. */
  isWritten(path: FieldPath): boolean {
    return this.#loaded?.isWritten(path) ?? false;
  }

  /** Calls the listener each time that a file has another content than when it was loaded. */
  watch(listener: () => void): void {
    const look = () => {
      this.#noticedAtMs = null;
      // Before the files are read, so that no change comes between.
      this.#watchFolders(() => this.#notice(look));
      if ([...this.#read].some(([file, digest]) => digestOf(readableText(file)) !== digest)) {
        listener();
      }
      this.#poll?.cancel();
      this.#poll = this.#clock.setTimer(POLL_MS, look);
    };
    look();
  }

  close(): void {
    for (const timer of [this.#timer, this.#poll]) timer?.cancel();
    for (const watcher of this.#watchers) watcher.close();
  }

  #notice(look: () => void): void {
    const now = this.#clock.elapsed();
    this.#noticedAtMs ??= now;
    this.#timer?.cancel();
    const leftMs = this.#noticedAtMs + MAX_DEBOUNCE_MS - now;
    this.#timer = this.#clock.setTimer(Math.max(0, Math.min(DEBOUNCE_MS, leftMs)), look);
  }

  /** Watches folders, since a file that another one replaces is not the one that was watched. */
  #watchFolders(listener: () => void): void {
    for (const watcher of this.#watchers) watcher.close();
    const folders = new Set([...this.#read.keys()].flatMap(foldersOf));
    this.#watchers = [...folders].flatMap((folder) => {
      try {
        const watcher = watch(folder, { persistent: false }, listener);
        return watcher.on('error', () => watcher.close());
      } catch {
        // It is gone, or the system watches no more: the files are read from time to time.
        return [];
      }
    });
  }
}

/** Returns the folder of a file, and those of the files to which its links lead, as Kubernetes swaps a ConfigMap. */
function foldersOf(file: string): string[] {
  const folders: string[] = [];
  for (let path: string | null = resolve(file); path !== null && folders.length < MAX_LINKS;) {
    const folder = dirname(path);
    folders.push(folder);
    path = linkedFrom(path, folder);
  }
  return folders;
}

function linkedFrom(path: string, folder: string): string | null {
  try {
    return resolve(folder, readlinkSync(path));
  } catch {
    return null;
  }
}

function digestOf(text: string | null): string | null {
  return text === null ? null : sha256(text);
}
