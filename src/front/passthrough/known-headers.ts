/**
 * The headers of a request that mean something: to HTTP and MCP, and to the gateway, since it knows callers by them or the
 * operator sets them. A client can neither double one in another spelling nor have it removed on the way.
 */

/** For the final recipient, so a sender must not name them in `Connection` (RFC 9110, 7.6.1), and those of proxies. */
const END_TO_END =
  /^(accept(-.*)?|authorization|content-.*|cookie|forwarded|host|last-event-id|mcp-.*|origin|x-forwarded-.*|x-real-ip)$/;

export class KnownHeaders {
  readonly #names: ReadonlySet<string>;
  readonly #plainNames: ReadonlySet<string>;

  /** @param names in any case */
  constructor(names: Iterable<string>) {
    this.#names = new Set([...names].map((name) => name.toLowerCase()));
    this.#plainNames = new Set([...this.#names].map(plainName));
  }

  /**
   * Tells whether a server could take a header for another one of the request, or for one that the request lacks.
   * @param name in lower case
   * @param sent the headers of the request, with names in lower case
   */
  isDouble(name: string, sent: Readonly<Record<string, unknown>>): boolean {
    if (this.#names.has(name) || END_TO_END.test(name)) return false;
    const plain = plainName(name);
    return this.#isPlain(plain) || (plain !== name && plain in sent);
  }

  /** Tells whether the meaning of a request depends on this header, in whatever spelling. */
  has(name: string): boolean {
    return this.#isPlain(plainName(name));
  }

  #isPlain(name: string): boolean {
    return this.#plainNames.has(name) || END_TO_END.test(name);
  }
}

/** Returns the one name of all headers that CGI, WSGI or Rack read as one: these take `X_User` for `X-User`. */
export function plainName(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '-');
}
