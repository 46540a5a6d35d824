/** One server in the file of a client, as a route. */
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { formatPath, type FieldPath, type Problem } from './problem.ts';

export interface Variables {
  /** @returns a reference to a variable that the file names itself */
  refer(name: string, field: string): string;
  /** @param names the first one that is free is taken @returns a reference to a variable with this value */
  standFor(value: string, names: readonly string[], field: string): string;
}

export interface Surroundings {
  readonly variables: Variables;
  /** The folder that `${workspaceFolder}` stands for. */
  readonly folder: string;
  /** The names of the routes so far. */
  readonly taken: Set<string>;
}

export interface Entry {
  readonly path: FieldPath;
  /** The key that has the URL. */
  readonly urlKey: string;
  /** `null` if it is no route: `notes` or `problems` say why. */
  readonly route: JsonObject | null;
  readonly problems: readonly Problem[];
  /** What is not translated, a line each. */
  readonly notes: readonly string[];
}

/** Reads a server of `mcpServers`. */
export function readEntry(
  path: FieldPath,
  value: JsonValue | undefined,
  around: Surroundings,
): Entry {
  const reader = new EntryReader(path, around);
  return { ...reader.read(value), path, problems: reader.problems, notes: reader.notes };
}

/** Clients name the URL in these ways. */
const URL_KEYS = ['url', 'httpUrl', 'serverUrl'];
/** What clients keep in an entry for themselves. */
const OF_THE_CLIENT = new Set(
  [
    'type,transport,disabled,enabled,name,description,title,timeout,trust,icon,version,dev,gallery',
    'tools,includeTools,excludeTools,alwaysAllow,autoApprove,cwd,command,args,env,headers',
  ].flatMap((names) => names.split(',')),
);
export const REFERENCE = /\$\{([^}]*)\}/g;
export const VARIABLE = /^(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-.*)?$/s;
/** What stands before a secret in an argument, which has its flag before it. The group names the secret. */
const BEFORE_SECRET = {
  flag: /^--?((?:[\w-]*-)?(?:pat|pass|pwd)|[\w-]*(?:key|token|secret|passw|auth|credential|bearer|dsn|connection-?string)[\w-]*)=/i,
  header: /^(?:-H=?|--headers?=)([\w-]+)\s*:\s*/,
  variable: /^(?:-e|--?[\w-]+=)?([A-Z][A-Z0-9_]*)=/,
  query: /^(?:--?[\w-]+=)?https?:\/\/[^?\s]*(\?)/i,
};

/** What stands before a reference without being a secret. */
const HARMLESS = /^(?:Bearer|Basic|Token)?[\s$]*$/i;

class EntryReader {
  readonly problems: Problem[] = [];
  readonly notes: string[] = [];
  readonly #path: FieldPath;
  readonly #name: string;
  readonly #around: Surroundings;

  constructor(path: FieldPath, around: Surroundings) {
    this.#path = path;
    this.#name = String(path.at(-1));
    this.#around = around;
  }

  read(value: JsonValue | undefined): Pick<Entry, 'route' | 'urlKey'> {
    const given = isJsonObject(value) ? value : {};
    const urlKey = URL_KEYS.find((key) => Object.hasOwn(given, key)) ?? 'url';
    const hasCommand = given['command'] !== undefined;
    if (!hasCommand && given[urlKey] === undefined) {
      return { route: this.#problem([], 'expected a map with command or url'), urlKey };
    }
    if (given['disabled'] === true || given['enabled'] === false) {
      this.#note([], 'is switched off, and left out');
      return { route: null, urlKey };
    }
    for (const key of Object.keys(given)) {
      if (key !== urlKey && !OF_THE_CLIENT.has(key)) this.#note([key], 'is not translated');
    }
    const upstream = hasCommand ? this.#command(given) : this.#remote(given, urlKey);
    const name = this.#routeName();
    return { route: { id: name, path: `/${name}/mcp`, upstream }, urlKey };
  }

  #routeName(): string {
    const { taken } = this.#around;
    // An id has 64 characters at most.
    const own = this.#name.replace(/[^A-Za-z0-9_-]+/g, '-').slice(0, 60) || 'server';
    let name = own;
    for (let number = 2; taken.has(name); number += 1) name = `${own}-${number}`;
    taken.add(name);
    return name;
  }

  #command({ command, args = [], env = {}, cwd }: JsonObject): JsonObject {
    if (!Array.isArray(args)) this.#problem(['args'], 'expected a list of texts');
    const words = Array.isArray(args) ? args : [];
    return {
      command: this.#text(command, ['command']),
      ...(words.length > 0 && { args: words.map((_, at) => this.#argument(words, at)) }),
      ...this.#map('env', env),
      ...(cwd !== undefined && { cwd: this.#text(cwd, ['cwd']) }),
    };
  }

  #remote({ type, transport, headers = {}, ...given }: JsonObject, urlKey: string): JsonObject {
    const isSse = type === 'sse' || transport === 'sse';
    return {
      url: this.#url(given[urlKey], urlKey),
      ...(isSse && { transport: 'http-sse' }),
      ...this.#map('headers', headers),
    };
  }

  /** A query can have a key. */
  #url(value: JsonValue | undefined, key: string): string {
    const text = this.#text(value, [key]);
    const at = text.indexOf('?');
    if (at < 0) return text;
    return `${text.slice(0, at + 1)}${this.#secret(text.slice(at + 1), [key], 'QUERY')}`;
  }

  /** `--token VALUE`, `--token=VALUE`, `-e NAME=VALUE`, `--header "Name: VALUE"` and a query are secrets, too. */
  #argument(words: readonly JsonValue[], at: number): string {
    const path = ['args', at];
    const [text, before] = [this.#text(words[at], path), words[at - 1]];
    // Such as the URL of a database.
    if (/\/\/[^/\s]*@/.test(text)) return this.#secret(text, path, 'URL');
    const isAfterFlag = typeof before === 'string' && /^--?[\w-]+$/.test(before);
    const flag = isAfterFlag && !text.startsWith('-') ? `${before}=` : '';
    for (const [kind, pattern] of Object.entries(BEFORE_SECRET)) {
      const [start, name] = pattern.exec(`${flag}${text}`) ?? [];
      if (start === undefined || name === undefined) continue;
      const plain = text.slice(0, start.length - flag.length);
      const variable = kind === 'query' ? 'QUERY' : variableOf(name);
      const secret = this.#secret(text.slice(plain.length), path, variable, kind === 'variable');
      return `${plain}${secret}`;
    }
    return text;
  }

  #map(key: 'env' | 'headers', value: JsonValue): JsonObject {
    if (!isJsonObject(value)) return this.#problem([key], 'expected a map of names to texts') ?? {};
    const members = Object.entries(value).map(([name, member]) => {
      const text = this.#text(typeof member === 'number' ? String(member) : member, [key, name]);
      return [name, this.#secret(text, [key, name], variableOf(name), key === 'env')] as const;
    });
    return members.length === 0 ? {} : { [key]: Object.fromEntries(members) };
  }

  /**
   * Replaces a text by a variable, and only what is around a reference.
   * @param isKnown whether the name says enough without that of the server
   */
  #secret(text: string, path: FieldPath, name: string, isKnown = false): string {
    const withServer = `${variableOf(this.#name)}_${name}`;
    const names = isKnown ? [name, withServer] : [withServer];
    const parts = text.split(/(\$\{[^}]*\})/);
    const hidden = parts.map((part, at) =>
      at % 2 === 1 || HARMLESS.test(part)
        ? part
        : this.#around.variables.standFor(part, names, this.#field(path)),
    );
    return hidden.join('');
  }

  /** Writes the references of clients as those of the gateway. */
  #text(value: JsonValue | undefined, path: FieldPath): string {
    if (typeof value !== 'string') return this.#problem(path, 'expected a text') ?? '';
    return value.replace(REFERENCE, (whole, inside: string) => {
      if (inside === 'workspaceFolder') return this.#around.folder;
      if (inside === 'userHome') return '${HOME}';
      const [, name] = VARIABLE.exec(inside) ?? [];
      const [, input] = /^input:(.+)$/s.exec(inside) ?? [];
      const variable = input === undefined ? name : variableOf(input);
      if (variable === undefined) {
        this.#note(path, `${whole} is known to its client only: write what it stands for`);
        return `$${whole}`;
      }
      if (input !== undefined) this.#note(path, `${whole} is asked by its client: set ${variable}`);
      const reference = this.#around.variables.refer(variable, this.#field(path));
      return input === undefined ? whole.replace('${env:', '${') : reference;
    });
  }

  #field(path: FieldPath): string {
    return formatPath([...this.#path, ...path]);
  }

  #problem(path: FieldPath, text: string): null {
    this.problems.push({ path: [...this.#path, ...path], text });
    return null;
  }

  #note(path: FieldPath, text: string): void {
    this.notes.push(`${this.#field(path)} ${text}`);
  }
}

/** Derives the name of a variable: `X-Api-Key` is `X_API_KEY`, and a name of variables stays. */
function variableOf(name: string): string {
  if (/^[A-Z_][A-Za-z0-9_]*$/.test(name) && name === name.toUpperCase()) return name;
  const upper = name.toUpperCase().replace(/[^A-Z0-9]+/g, '_');
  return /^[A-Z_]/.test(upper) ? upper : `_${upper}`;
}
