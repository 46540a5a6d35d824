/** The protocol of Redis (RESP2), as far as its clients need it. */

/** A number is an integer, a buffer a bulk string, `null` none, a text a line, a list an array. */
export type Reply = number | string | Buffer | null | Reply[];

/** Commands, from pieces that are cut anywhere. */
export class RespParser {
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

export function encode(reply: Reply): Buffer {
  if (reply === null) return Buffer.from('$-1\r\n');
  if (typeof reply === 'number') return Buffer.from(`:${reply}\r\n`);
  if (typeof reply === 'string') return Buffer.from(`${reply}\r\n`);
  if (Array.isArray(reply)) {
    return Buffer.concat([Buffer.from(`*${reply.length}\r\n`), ...reply.map(encode)]);
  }
  return Buffer.concat([Buffer.from(`$${reply.length}\r\n`), reply, Buffer.from('\r\n')]);
}
