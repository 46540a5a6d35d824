/** What a Redis keeps, as far as gateways use it, with twins of their scripts. It is compared with a real one. */
import {
  CLAIM,
  END,
  KEEP_END,
  RELEASE,
  STATE,
  writeClaim,
} from '../../../src/fleet/store/redis-scripts.ts';
import { PUSH } from '../../../src/fleet/relay/redis-queue.ts';
import type { Reply } from './resp.ts';

type Value = Buffer | Buffer[];

interface Entry {
  readonly value: Value;
  readonly untilMs: number;
}

interface Change {
  readonly atMs: number;
  readonly key: string;
  readonly before: Entry | undefined;
}

/** A claim that was made or renewed. */
export interface StoredClaim {
  readonly key: string;
  readonly fencingToken: number;
  readonly owner: string;
}

const SECOND_MS = 1_000;
const OK = '+OK';
const WRONG_TYPE = '-WRONGTYPE Operation against a key holding the wrong kind of value';
const NOT_A_NUMBER = '-ERR the fencing token is not an integer';
const FENCING_TOKEN = /^{"v":1,"fencingToken":(\d+),"owner":/;
/** So far back a fail-over can fall, in changes. */
const MOST_CHANGES = 10_000;

/** An error reply, which ends a command. */
class Refused extends Error {
  readonly reply: string;

  constructor(reply: string) {
    super(reply);
    this.reply = reply;
  }
}

/** How the key of a lease ends. */
const LEASE = ':lease';

export class Store {
  readonly #now: () => number;
  /** Called with each claim that a script has made or renewed. */
  onClaim: (claim: StoredClaim) => void = () => {};
  /** Called with each value that a command or a script has put, other than a claim. */
  onSet: (key: string) => void = () => {};
  readonly #entries = new Map<string, Entry>();
  readonly #changes: Change[] = [];
  readonly #garbage = new Set<Value>();

  /** @param now the wall clock, in ms */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Runs a command at once. @returns `undefined` for a read that must wait */
  run([name = Buffer.alloc(0), ...args]: readonly Buffer[]): Reply | undefined {
    try {
      return this.#run(String(name).toLowerCase(), args);
    } catch (error) {
      if (error instanceof Refused) return error.reply;
      throw error;
    }
  }

  get keys(): string[] {
    return [...this.#entries.keys()];
  }

  /** Puts what is no queue in the place of the queues of messages of those who have a lease, also of empty ones. */
  poisonQueues(): void {
    const leases = this.keys.filter((key) => key.endsWith(LEASE));
    for (const key of leases) {
      const value = Buffer.from('garbage');
      this.#garbage.add(value);
      this.#put(`${key.slice(0, -LEASE.length)}:mail`, { value, untilMs: Infinity });
    }
  }

  /** Loses all. */
  flush(): void {
    for (const key of this.keys) this.#delete(key);
  }

  /** Undoes what has changed in the last `ms`, as a replica that was behind does when it becomes the first. */
  fallBack(ms: number): void {
    const sinceMs = this.#now() - ms;
    for (let last = this.#changes.at(-1); last !== undefined; last = this.#changes.at(-1)) {
      if (last.atMs < sinceMs) return;
      this.#changes.pop();
      if (last.before === undefined) this.#entries.delete(last.key);
      else this.#entries.set(last.key, last.before);
    }
  }

  /** Puts what nobody wrote in the place of a value, for as long as that would have stayed. */
  poison(key: string, value: Value): void {
    const entry = this.#get(key);
    if (entry === null) return;
    this.#garbage.add(value);
    this.#put(key, { value, untilMs: entry.untilMs });
  }

  /** Deletes what nobody wrote: a claim that the gateway cannot read is another's, for as long as it stays. */
  heal(): void {
    for (const [key, { value }] of this.#entries) if (this.#garbage.has(value)) this.#delete(key);
  }

  #run(name: string, args: readonly Buffer[]): Reply | undefined {
    const words = args.map(String);
    const [key = '', second = ''] = words;
    switch (name) {
      case 'info':
        return Buffer.from('redis_version:7.2.0\r\nloading:0\r\nrole:master\r\n');
      case 'ping':
        return '+PONG';
      case 'select':
      case 'client':
        return OK;
      case 'hello':
        return '-ERR unknown command';
      case 'get':
        return this.#bytes(key);
      case 'set':
        return this.#setIf(key, args[1] ?? Buffer.alloc(0), words.slice(2));
      case 'del':
        return words.filter((word) => this.#delete(word)).length;
      case 'pttl':
        return this.#leftMs(key);
      case 'pexpire':
        return this.#expire(key, Number(second)) ? 1 : 0;
      case 'llen':
        return this.#list(key).length;
      case 'blpop':
        return this.#takeFirst(key);
      case 'time':
        return [Math.floor(this.#now() / SECOND_MS), (this.#now() % SECOND_MS) * SECOND_MS].map(
          (part) => Buffer.from(String(Math.floor(part))),
        );
      case 'eval': {
        const argsAt = 2 + Number(second);
        return this.#script(key, words.slice(2, argsAt), words.slice(argsAt), args.slice(argsAt));
      }
      default:
        throw new Error(`the Redis of the simulation does not know ${name}`);
    }
  }

  /** @param bytes of the arguments */
  #script(
    text: string,
    keys: readonly string[],
    args: readonly string[],
    bytes: readonly Buffer[],
  ): Reply {
    const [first = '', second = ''] = keys;
    if (text === CLAIM) return this.#claim(first, second, args);
    if (text === STATE) return this.#state(first, second, args, bytes[2] ?? Buffer.alloc(0));
    if (text === KEEP_END) return this.#keepEnd(first, args, bytes[2] ?? Buffer.alloc(0));
    if (text === RELEASE) return this.#release(first, second, args);
    if (text === PUSH) return this.#push(first, args);
    throw new Error(`the Redis of the simulation has no twin of this script: ${text.slice(0, 80)}`);
  }

  #claim(
    key: string,
    tokenKey: string,
    [owner = '', ttl = '', old = '']: readonly string[],
  ): Reply {
    const ttlMs = Number(ttl);
    const existing = this.#text(key);
    let fencingToken: number;
    if (existing !== null && (old === '' || existing !== old)) {
      const mine = FENCING_TOKEN.exec(existing)?.[1];
      if (mine === undefined || existing !== writeClaim(mine, owner)) {
        return [0, Buffer.from(existing)];
      }
      fencingToken = Number(mine);
    } else {
      const last = this.#text(tokenKey) ?? existing;
      fencingToken = 1 + (last === null ? 0 : numberOf(last));
    }
    const claim = Buffer.from(writeClaim(fencingToken, owner));
    this.#set(key, claim, ttlMs);
    this.#set(tokenKey, claim, Math.max(ttlMs * 2, this.#leftMs(tokenKey)));
    this.onClaim({ key, fencingToken, owner });
    return [1, fencingToken];
  }

  #release(key: string, tokenKey: string, [owner = '', wanted = '']: readonly string[]): Reply {
    const existing = this.#text(key);
    if (existing === null) return 0;
    const fencingToken = wanted === '' ? (FENCING_TOKEN.exec(existing)?.[1] ?? '') : wanted;
    if (existing !== writeClaim(fencingToken, owner)) return 0;
    if (tokenKey !== '' && this.#text(tokenKey) === existing) this.#delete(tokenKey);
    return this.#delete(key) ? 1 : 0;
  }

  #state(
    tokenKey: string,
    key: string,
    [own = '', ttl = '']: readonly string[],
    value: Buffer,
  ): Reply {
    const last = this.#text(tokenKey);
    if (last !== null && last !== own) {
      numberOf(last);
      return 0;
    }
    if (value.length === 0) {
      this.#delete(key);
      return 1;
    }
    if (this.#text(key)?.startsWith(END) === true) return 2;
    this.#keep(key, value, ttl);
    return 1;
  }

  #keepEnd(key: string, [line = '', ttl = '']: readonly string[], value: Buffer): Reply {
    const existing = this.#text(key) ?? '';
    if (existing.startsWith(END) && !existing.startsWith(line)) return 2;
    this.#keep(key, value, ttl);
    return 1;
  }

  #keep(key: string, value: Buffer, ttl: string): void {
    this.onSet(key);
    this.#set(key, value, Number(ttl));
  }

  #push(key: string, [text = '', most = '', mostBytes = '', ttl = '']: readonly string[]): Reply {
    const list = this.#list(key);
    if (list.length >= Number(most)) return 0;
    if (list.reduce((total, { length }) => total + length, 0) >= Number(mostBytes)) return 0;
    this.#put(key, { value: [...list, Buffer.from(text)], untilMs: this.#now() + Number(ttl) });
    return 1;
  }

  #takeFirst(key: string): Reply | undefined {
    const [first, ...rest] = this.#list(key);
    if (first === undefined) return undefined;
    const untilMs = this.#get(key)?.untilMs ?? Infinity;
    if (rest.length === 0) this.#delete(key);
    else this.#put(key, { value: rest, untilMs });
    return [Buffer.from(key), first];
  }

  #setIf(key: string, value: Buffer, options: readonly string[]): Reply {
    const upper = options.map((option) => option.toUpperCase());
    if (upper.includes('XX') && this.#get(key) === null) return null;
    const at = upper.indexOf('PX');
    this.onSet(key);
    this.#set(key, value, at === -1 ? Infinity : Number(options[at + 1]));
    return OK;
  }

  #set(key: string, value: Value, ttlMs: number): void {
    this.#put(key, { value, untilMs: this.#now() + ttlMs });
  }

  #expire(key: string, ttlMs: number): boolean {
    const entry = this.#get(key);
    if (entry !== null) this.#set(key, entry.value, ttlMs);
    return entry !== null;
  }

  #put(key: string, entry: Entry): void {
    this.#note(key);
    this.#entries.set(key, entry);
  }

  #delete(key: string): boolean {
    if (this.#get(key) === null) return false;
    this.#note(key);
    return this.#entries.delete(key);
  }

  #note(key: string): void {
    this.#changes.push({ atMs: this.#now(), key, before: this.#entries.get(key) });
    if (this.#changes.length > MOST_CHANGES) this.#changes.shift();
  }

  #get(key: string): Entry | null {
    const entry = this.#entries.get(key);
    if (entry === undefined) return null;
    if (entry.untilMs > this.#now()) return entry;
    this.#entries.delete(key);
    return null;
  }

  #bytes(key: string): Buffer | null {
    const value = this.#get(key)?.value ?? null;
    if (Array.isArray(value)) throw new Refused(WRONG_TYPE);
    return value;
  }

  #list(key: string): Buffer[] {
    const value = this.#get(key)?.value ?? [];
    if (!Array.isArray(value)) throw new Refused(WRONG_TYPE);
    return value;
  }

  #text(key: string): string | null {
    return this.#bytes(key)?.toString() ?? null;
  }

  #leftMs(key: string): number {
    const entry = this.#get(key);
    if (entry === null) return -2;
    return entry.untilMs === Infinity ? -1 : Math.ceil(entry.untilMs - this.#now());
  }
}

/** The number of a claim. @throws Refused if it is none */
function numberOf(claim: string): number {
  const number = FENCING_TOKEN.exec(claim)?.[1];
  if (number === undefined) throw new Refused(NOT_A_NUMBER);
  return Number(number);
}
