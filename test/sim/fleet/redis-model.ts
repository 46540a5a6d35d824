/** A Redis in memory, as far as gateways use it: it speaks RESP, and has twins of their scripts. */
import net from 'node:net';
import { CLAIM, RELEASE } from '../../../src/replicas/directory/claim-record.ts';

/** A number is an integer, a buffer a bulk string, `null` none, a text a line, a list an array. */
type Reply = number | string | Buffer | null | Reply[];

interface Entry {
  readonly value: Buffer;
  readonly untilMs: number;
}

const MS = 1_000;
const OK = '+OK';
const EPOCH = /^{"epoch":(\d+),"owner":/;

/** Listens at `port`, as the process that calls it. */
export function startRedisModel(port: number): void {
  const store = new RedisModel();
  const server = net.createServer((socket) => {
    const parser = new RespParser();
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      for (const words of parser.read(bytes)) socket.write(encode(store.run(words)));
    });
  });
  server.listen(port, '127.0.0.1');
}

class RedisModel {
  readonly #entries = new Map<string, Entry>();

  run([name = Buffer.alloc(0), ...args]: readonly Buffer[]): Reply {
    const words = args.map(String);
    const [key = '', second = ''] = words;
    switch (String(name).toLowerCase()) {
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
        return this.#get(key)?.value ?? null;
      case 'set':
        return this.#setIf(key, args[1] ?? Buffer.alloc(0), words.slice(2));
      case 'del':
        return words.filter((word) => this.#get(word) && this.#entries.delete(word)).length;
      case 'pttl':
        return this.#leftMs(key);
      case 'time':
        return [Math.floor(Date.now() / MS), Math.floor((Date.now() % MS) * MS)].map((part) =>
          Buffer.from(String(part)),
        );
      case 'eval':
        return this.#script(
          key,
          words.slice(2, 2 + Number(second)),
          words.slice(2 + Number(second)),
        );
      default:
        throw new Error(`the Redis of the simulation does not know ${String(name)}`);
    }
  }

  #script(text: string, keys: readonly string[], args: readonly string[]): Reply {
    const [first = '', second = ''] = keys;
    const [owner = '', third = '', replaceable = ''] = args;
    if (text === CLAIM) return this.#claim([first, second], owner, Number(third), replaceable);
    if (text === RELEASE) return this.#release(first, owner, third);
    throw new Error(`the Redis of the simulation has no twin of this script: ${text.slice(0, 80)}`);
  }

  #claim(
    [key, epochKey]: readonly [string, string],
    owner: string,
    ttlMs: number,
    replaceable: string,
  ): Reply {
    const existing = this.#text(key);
    let epoch: number;
    if (existing !== null && (replaceable === '' || existing !== replaceable)) {
      epoch = epochOf(existing);
      if (existing !== claimText(epoch, owner)) return [0, Buffer.from(existing)];
    } else {
      epoch = Number(this.#text(epochKey) ?? 0) + 1;
    }
    this.#set(key, Buffer.from(claimText(epoch, owner)), ttlMs);
    const last = this.#get(epochKey);
    const untilMs = Math.max(last?.untilMs ?? 0, Date.now() + ttlMs * 2);
    this.#set(epochKey, Buffer.from(String(epoch)), untilMs - Date.now());
    return [1, epoch];
  }

  #release(key: string, owner: string, wanted: string): Reply {
    const existing = this.#text(key);
    if (existing === null) return 0;
    const epoch = wanted === '' ? epochOf(existing) : Number(wanted);
    return existing === claimText(epoch, owner) && this.#entries.delete(key) ? 1 : 0;
  }

  #setIf(key: string, value: Buffer, options: readonly string[]): Reply {
    const upper = options.map((option) => option.toUpperCase());
    if (upper.includes('XX') && this.#get(key) === null) return null;
    const at = upper.indexOf('PX');
    this.#set(key, value, at === -1 ? Infinity : Number(options[at + 1]));
    return OK;
  }

  #set(key: string, value: Buffer, ttlMs: number): void {
    this.#entries.set(key, { value, untilMs: Date.now() + ttlMs });
  }

  #get(key: string): Entry | null {
    const entry = this.#entries.get(key);
    if (entry === undefined) return null;
    if (entry.untilMs > Date.now()) return entry;
    this.#entries.delete(key);
    return null;
  }

  #text(key: string): string | null {
    return this.#get(key)?.value.toString() ?? null;
  }

  #leftMs(key: string): number {
    const entry = this.#get(key);
    if (entry === null) return -2;
    return entry.untilMs === Infinity ? -1 : Math.ceil(entry.untilMs - Date.now());
  }
}

/** Commands, from pieces that are cut anywhere. */
class RespParser {
  #rest = Buffer.alloc(0);

  read(bytes: Buffer): Buffer[][] {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    const commands: Buffer[][] = [];
    for (let words = this.#next(); words !== null; words = this.#next()) commands.push(words);
    return commands;
  }

  #next(): Buffer[] | null {
    const head = this.#line(0);
    if (head === null) return null;
    const words: Buffer[] = [];
    let at = head.end;
    while (words.length < head.number) {
      const line = this.#line(at);
      if (line === null || this.#rest.length < line.end + line.number + 2) return null;
      words.push(this.#rest.subarray(line.end, line.end + line.number));
      at = line.end + line.number + 2;
    }
    this.#rest = this.#rest.subarray(at);
    return words;
  }

  /** A line with a type and a number. */
  #line(start: number): { readonly number: number; readonly end: number } | null {
    const end = this.#rest.indexOf('\r\n', start);
    if (end === -1) return null;
    return { number: Number(this.#rest.toString('latin1', start + 1, end)), end: end + 2 };
  }
}

function encode(reply: Reply): Buffer {
  if (reply === null) return Buffer.from('$-1\r\n');
  if (typeof reply === 'number') return Buffer.from(`:${reply}\r\n`);
  if (typeof reply === 'string') return Buffer.from(`${reply}\r\n`);
  if (Array.isArray(reply)) {
    return Buffer.concat([Buffer.from(`*${reply.length}\r\n`), ...reply.map(encode)]);
  }
  return Buffer.concat([Buffer.from(`$${reply.length}\r\n`), reply, Buffer.from('\r\n')]);
}

function claimText(epoch: number, owner: string): string {
  return `{"epoch":${epoch},"owner":${owner}}`;
}

function epochOf(claim: string): number {
  return Number(EPOCH.exec(claim)?.[1] ?? 0);
}
