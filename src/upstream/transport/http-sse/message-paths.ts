/**
 * The paths to which a server of HTTP+SSE wants messages posted. The first event of a stream names that of
 * the session (2024-11-05 transports, "HTTP with SSE"); some servers put the session id into the path.
 */

/** Longer paths are ignored, to limit the memory. */
const MAX_PATH_LENGTH = 1024;

export class MessagePaths {
  /** The segments of the server's own path, and the values of its query. They name no session. */
  readonly #fixed: ReadonlySet<string>;
  readonly #url: URL;
  #latest: string | null = null;
  /** The paths of open streams, and how many streams have each. */
  readonly #open = new Map<string, number>();

  /** @param url the URL of the server. All paths are on its origin. */
  constructor(url: URL) {
    this.#url = url;
    this.#fixed = new Set([...url.pathname.split('/'), ...url.searchParams.values()]);
  }

  /** Remembers the path that the gateway itself was told last. */
  toldUs({ pathname }: URL): void {
    this.#latest = pathname;
  }

  /**
   * Remembers the path that a legacy client was told on its stream.
   * @param endpoint a URL, relative or absolute
   * @returns a function to call when the stream, and so the session, ends
   */
  toldClient(endpoint: string): () => void {
    const url = URL.canParse(endpoint, this.#url.href) ? new URL(endpoint, this.#url) : null;
    if (url?.origin !== this.#url.origin) return () => {};
    const { pathname } = url;
    if (pathname.length > MAX_PATH_LENGTH) return () => {};
    this.#open.set(pathname, (this.#open.get(pathname) ?? 0) + 1);
    return () => {
      const others = (this.#open.get(pathname) ?? 1) - 1;
      if (others === 0) this.#open.delete(pathname);
      else this.#open.set(pathname, others);
    };
  }

  /** True for a path that the gateway, or a client with an open stream, was told. */
  has(path: string): boolean {
    return path === this.#latest || this.#open.has(path);
  }

  /**
   * True for a path that differs from the gateway's own only in a session id of the same form: a client
   * with a stream through another replica may have been told it.
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

/** Returns the form of an id; `null` for what is more likely a word. */
function formOfId(segment: string): string | null {
  if (/^\d{1,20}$/.test(segment)) return 'number';
  if (UUID.test(segment)) return 'uuid';
  const mixed = /\d/.test(segment) || (/[a-z]/.test(segment) && /[A-Z]/.test(segment));
  return mixed && /^[\w-]{16,}$/.test(segment) ? `${segment.length} characters` : null;
}
