/**
 * The paths to which a server of HTTP+SSE wants messages posted. Each session is told its own in the
 * first event of its stream (2024-11-05 transports, "HTTP with SSE"), and some servers put the session
 * into the path.
 */

/** What no server can mean by a path, and what keeps the memory that it takes small. */
const MAX_PATH_LENGTH = 1024;

export class MessagePaths {
  /** The path of the server's URL and what stands in its query: none of that names a session. */
  readonly #fixed: ReadonlySet<string>;
  readonly #url: URL;
  #latest: string | null = null;
  /** Of streams that are open, and how many of them were told that path. */
  readonly #open = new Map<string, number>();

  /** @param url the URL of the server, on whose origin all paths are */
  constructor(url: URL) {
    this.#url = url;
    this.#fixed = new Set([...url.pathname.split('/'), ...url.searchParams.values()]);
  }

  /** Takes what the gateway itself was told; it holds until the gateway is told another path. */
  toldUs({ pathname }: URL): void {
    this.#latest = pathname;
  }

  /**
   * Takes what a client was told, relative or not, on a stream that has been opened.
   * @returns to be called when that stream is over; the session is, too
   */
  toldClient(endpoint: string): () => void {
    const url = URL.canParse(endpoint, this.#url.href) ? new URL(endpoint, this.#url) : null;
    if (url === null || url.origin !== this.#url.origin) return () => {};
    const { pathname } = url;
    if (pathname.length > MAX_PATH_LENGTH) return () => {};
    this.#open.set(pathname, (this.#open.get(pathname) ?? 0) + 1);
    return () => {
      const others = (this.#open.get(pathname) ?? 1) - 1;
      if (others === 0) this.#open.delete(pathname);
      else this.#open.set(pathname, others);
    };
  }

  /** True for a path that was told to somebody here. */
  has(path: string): boolean {
    return path === this.#latest || this.#open.has(path);
  }

  /**
   * True for a path that differs from the gateway's own in a session id of the same form and in nothing
   * else: a client whose stream runs through another replica may have been told it.
   */
  resembles(path: string): boolean {
    const [own, other] = [this.#latest?.split('/') ?? [], path.split('/')];
    if (path.length > MAX_PATH_LENGTH || own.length !== other.length) return false;
    const differing = own.flatMap((segment, at) =>
      segment === other[at] ? [] : [[segment, other[at] ?? ''] as const],
    );
    const [ids, ...more] = differing;
    if (ids === undefined || more.length > 0) return false;
    const form = formOfId(ids[0]);
    return form !== null && form === formOfId(ids[1]) && !ids.some((id) => this.#fixed.has(id));
  }
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** How ids like this one are made; `null` for what is rather a word. */
function formOfId(segment: string): string | null {
  if (/^\d{1,20}$/.test(segment)) return 'number';
  if (UUID.test(segment)) return 'uuid';
  const mixed = /\d/.test(segment) || (/[a-z]/.test(segment) && /[A-Z]/.test(segment));
  return mixed && /^[\w-]{16,}$/.test(segment) ? `${segment.length} characters` : null;
}
