/**
 * Errors of the Redis client in the gateway's own words. No text of them is passed on: a server repeats a command
 * that it does not know with its arguments, such as the password.
 */
import { DirectoryUnavailable, type DirectoryFailure } from '../../model/directory.ts';

const MEANINGS: readonly (readonly [RegExp, DirectoryFailure, string])[] = [
  [/WRONGPASS|invalid password/i, 'auth', 'refused the username or password'],
  [/NOAUTH|Authentication required/i, 'auth', 'requires a username or password'],
  [/NOPERM/, 'auth', 'denies the user a command that the gateway needs (NOPERM): check the ACL'],
  [
    /CERT|ERR_TLS|ERR_SSL|EPROTO|SELF_SIGNED|UNABLE_TO_|wrong version number/,
    'tls',
    'cannot be used: TLS handshake failed',
  ],
  [/ECONNREFUSED/, 'refused', 'refused the connection; check that Redis runs at redis.url'],
  [
    /ENOTFOUND|EAI_AGAIN/,
    'name',
    'cannot be reached: the host name cannot be resolved; check redis.url',
  ],
  [/timed out|timeout|ETIMEDOUT/i, 'timeout', 'did not answer in time'],
  [/READONLY/, 'store', 'is read-only (READONLY)'],
  [/MISCONF/, 'store', 'refuses writes (MISCONF)'],
  [/OOM/, 'store', 'is out of memory (OOM)'],
  [/LOADING/, 'store', 'is loading its data (LOADING)'],
  [/CLUSTERDOWN/, 'store', 'has a cluster that is down (CLUSTERDOWN)'],
  [/CROSSSLOT|cluster support disabled/i, 'store', 'does not run in the configured mode'],
];

/**
 * Converts an error of the client to the one that the directory throws.
 * @param store the address for the message
 * @param before an earlier error, which explains a cause that says nothing (a closed connection)
 */
export function unavailable(cause: unknown, store: string, before?: unknown): DirectoryUnavailable {
  return (
    describe(cause, store) ??
    describe(before, store) ??
    new DirectoryUnavailable(
      'network',
      `Redis at ${store} cannot be reached; check that Redis runs at redis.url`,
    )
  );
}

function describe(error: unknown, store: string): DirectoryUnavailable | null {
  if (error instanceof DirectoryUnavailable) return error;
  const text = textOf(error);
  const found = MEANINGS.find(([pattern]) => pattern.test(text));
  if (found !== undefined) {
    const [, failure, meaning] = found;
    const code = failure === 'tls' ? tlsCode(text) : '';
    return new DirectoryUnavailable(failure, `Redis at ${store} ${meaning}${code}`);
  }
  if (!(error instanceof Error) || error.name !== 'ReplyError') return null;
  const word = /^[A-Z]{2,20}(?= )/.exec(error.message)?.[0] ?? 'ERR';
  return new DirectoryUnavailable('store', `Redis at ${store} answered with an error (${word})`);
}

/** Returns code and message of an error and of the one that a Cluster client wraps. For matching only. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return '';
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const inner = 'lastNodeError' in error ? textOf(error.lastNodeError) : '';
  return `${inner} ${code} ${error.message}`;
}

/** Finds the code of OpenSSL or Node for a certificate problem, which holds no secret. */
function tlsCode(text: string): string {
  const code = /\b(?:[A-Z]+_)+[A-Z]+\b/.exec(text)?.[0];
  return code === undefined ? '' : ` (${code})`;
}

/** Tells whether a command failed because there was no connection, so that Redis did not get it. */
export function wasNotSent(error: unknown): boolean {
  return error instanceof Error && error.message.includes('enableOfflineQueue');
}
