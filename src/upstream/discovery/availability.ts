/**
 * Checks whether an upstream can be used: before the gateway listens, and again until it responds. The
 * gateway starts while the upstream is down. It does not start if the upstream responds and is not an MCP server.
 */
import { vitalWork } from '../../lib/background.ts';
import { sleep, type Clock, type Timer } from '../../lib/clock.ts';
import type { Log } from '../../ops/log.ts';
import { spellingsOf } from '../../lib/shown-text.ts';
import { StartFailure } from '../../lib/program.ts';
import type { LegacyServer } from '../legacy-server.ts';
import {
  asUpstreamFailure,
  type UpstreamFailure,
  type UpstreamFailureCode,
} from '../../model/upstream-failure.ts';

const FIRST_RETRY_MS = 1_000;
/** Shorter values are words, and no secrets. */
const MIN_SECRET_CHARACTERS = 6;
const MAX_RETRY_MS = 30_000;

export interface AvailabilityOptions {
  readonly route: string;
  /** The name of the server in messages. */
  readonly server: string;
  readonly upstream: LegacyServer;
  /** Whether credentials of clients, or headers that they choose, reach the server. */
  readonly takesCredentials: boolean;
  /** What the operator gives to the server, and what is not logged if the server repeats it. */
  readonly secrets: readonly string[];
  readonly clock: Clock;
  readonly log: Log;
}

export class Availability {
  readonly #options: AvailabilityOptions;
  #problem: string | null = 'no response yet';
  #timer: Timer | null = null;
  #retryMs = FIRST_RETRY_MS;
  #closed = false;

  constructor(options: AvailabilityOptions) {
    this.#options = options;
  }

  get ready(): boolean {
    return this.#problem === null || this.#options.upstream.greetedKind !== null;
  }

  /** The status for the readiness endpoint: one word or line. */
  get status(): string {
    return this.#options.upstream.greetedKind ?? this.#problem ?? 'needs credentials';
  }

  /**
   * Starts the first check and waits for it for at most `waitMs`. Later checks run in the background.
   * @throws StartFailure if the upstream responds and cannot be used
   */
  async start(waitMs: number): Promise<void> {
    const { clock } = this.#options;
    const checked = this.#check().then((failure) => {
      if (failure !== null) this.#refuse(failure);
      return 'checked' as const;
    });
    checked.catch(() => {});
    const first = await Promise.race([checked, sleep(clock, waitMs)]);
    if (first === 'checked') return;
    const problem = `no response within ${waitMs} ms: it may still be starting, and is used once it responds`;
    this.#logUnavailable('upstream_timeout', problem);
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  async #check(): Promise<UpstreamFailure | null> {
    const { upstream } = this.#options;
    try {
      await upstream.greet({});
      this.#problem = null;
      return null;
    } catch (error) {
      const failure = asUpstreamFailure(error, false);
      // The gateway ended the check itself.
      if (this.#closed) return failure;
      // It responds, and may serve clients with credentials.
      if (this.#options.takesCredentials && mayLackCredentials(failure)) {
        this.#problem = null;
        this.#logRefusal(failure);
        return null;
      }
      const problem = this.#problemOf(failure);
      this.#problem = `${failure.code}: ${problem}`;
      this.#logUnavailable(failure.code, problem);
      this.#checkLater();
      return failure;
    }
  }

  #logUnavailable(code: UpstreamFailureCode, problem: string): void {
    const { log, route, server } = this.#options;
    log.event('upstream.unavailable', { route, url: server, code, problem });
  }

  /** A server that names no way to log in may refuse the gateway for another reason, such as its `Host`. */
  #logRefusal({ details: { httpStatus = 0, wwwAuthenticate, said = '' } }: UpstreamFailure): void {
    const { log, route } = this.#options;
    if (wwwAuthenticate !== undefined) return;
    log.event('upstream.refused', { route, status: httpStatus, said: this.#withoutSecrets(said) });
  }

  /** Describes a failure with the words of the server. No client has a part in these checks, so none of its data is in them. */
  #problemOf({ message, details: { said } }: UpstreamFailure): string {
    return said === undefined ? message : `${message}: "${this.#withoutSecrets(said)}"`;
  }

  #withoutSecrets(said: string): string {
    const values = this.#options.secrets.flatMap((value) => [value, ...value.split(' ')]);
    return spellingsOf(values, MIN_SECRET_CHARACTERS).reduce(withoutSecret, said);
  }

  #checkLater(): void {
    if (this.#closed) return;
    this.#timer = this.#options.clock.setTimer(this.#retryMs, () => vitalWork(this.#check()));
    this.#retryMs = Math.min(this.#retryMs * 2, MAX_RETRY_MS);
  }

  #refuse(failure: UpstreamFailure): void {
    const { server, route, upstream } = this.#options;
    const where = `the upstream of route "${route}", ${server},`;
    if (failure.code === 'unauthorized') {
      throw new StartFailure(
        'upstream_refused',
        `${where} refuses the gateway (HTTP ${failure.details.httpStatus}), and clients' credentials are not forwarded: correct upstream.headers, or let clients bring theirs with upstream.authorization: forward`,
      );
    }
    // JSON that is not a reply can come from a server that is not ready yet, or from a proxy in front of it.
    if (failure.code === 'upstream_protocol_error' && failure.details.isForReply !== true) {
      throw new StartFailure(
        'upstream_not_mcp',
        `${where} does not speak MCP: ${this.#problemOf(failure)}; ${WAYS_OUT[upstream.knownKind ?? 'unknown']}`,
      );
    }
  }
}

/** Statuses of servers that know their users by a header of their own, and miss it. */
const INCOMPLETE_STATUSES = new Set([400, 422]);

/** True if the server has refused this request, and may take that of a client. With a page or a text it is no MCP server. */
function mayLackCredentials({ code, details: { httpStatus, hasJson } }: UpstreamFailure): boolean {
  const isIncomplete = httpStatus !== undefined && INCOMPLETE_STATUSES.has(httpStatus);
  return code === 'unauthorized' || (isIncomplete && hasJson === true);
}

const ENDPOINT = 'give the URL of its MCP endpoint, such as http://host:port/mcp or /sse';

const COMMAND = 'check the command, and its arguments and variables';

/** What to do about a server that does not speak MCP, by what it was said to speak. */
const WAYS_OUT = {
  unknown: ENDPOINT,
  modern: ENDPOINT,
  'streamable-http': `${ENDPOINT}, and let the gateway detect the transport (auto)`,
  'http-sse': `${ENDPOINT}, and let the gateway detect the transport (auto)`,
  stdio: COMMAND,
  'modern-stdio': COMMAND,
} as const;

/** Removes a secret from the words of a server, also one that their end cuts off. */
function withoutSecret(said: string, secret: string): string {
  const text = said.replaceAll(secret, '***');
  if (!text.endsWith('…')) return text;
  for (let length = secret.length - 1; length >= MIN_SECRET_CHARACTERS; length -= 1) {
    const cut = `${secret.slice(0, length)}…`;
    if (text.endsWith(cut)) return `${text.slice(0, -cut.length)}***…`;
  }
  return text;
}
