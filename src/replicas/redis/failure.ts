/**
 * What an error of the Redis client means, told in our own words. No text of the error is passed on:
 * servers repeat a command that they do not know with its arguments, and one of them is the password.
 */
import { DirectoryUnavailable, type DirectoryFailure } from '../../model/directory.ts';

const MEANINGS: readonly (readonly [RegExp, DirectoryFailure, string])[] = [
  [/WRONGPASS|invalid password/i, 'auth', 'refused the username or password'],
  [/NOAUTH|Authentication required/i, 'auth', 'requires a username or password'],
  [/NOPERM/, 'auth', 'does not permit this user what the gateway needs'],
  [
    /CERT|ERR_TLS|ERR_SSL|EPROTO|SELF_SIGNED|UNABLE_TO_|wrong version number/,
    'tls',
    'failed at TLS',
  ],
  [/ECONNREFUSED/, 'refused', 'refused the connection'],
  [/ENOTFOUND|EAI_AGAIN/, 'name', 'has a host name that does not resolve'],
  [/timed out|timeout|ETIMEDOUT/i, 'timeout', 'did not answer in time'],
  [/READONLY/, 'store', 'is read-only (READONLY)'],
  [/MISCONF/, 'store', 'refuses writes (MISCONF)'],
  [/OOM/, 'store', 'is out of memory (OOM)'],
  [/LOADING/, 'store', 'is loading its data (LOADING)'],
  [/CLUSTERDOWN/, 'store', 'has a cluster that is down (CLUSTERDOWN)'],
  [/CROSSSLOT|cluster support disabled/i, 'store', 'does not run in the configured mode'],
];

/**
 * In: whatever the client threw, and the store's address for the message. Out: the error to throw
 * instead; a cause that says nothing of its own (a closed connection) is told as `before`, when given.
 */
export function unavailable(cause: unknown, store: string, before?: unknown): DirectoryUnavailable {
  return (
    understood(cause, store) ??
    understood(before, store) ??
    new DirectoryUnavailable('network', `Redis at ${store} cannot be reached`)
  );
}

function understood(error: unknown, store: string): DirectoryUnavailable | null {
  if (error instanceof DirectoryUnavailable) return error;
  const text = tell(error);
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

/** Code and message of an error and of the one that a Cluster client wraps; for matching only. */
function tell(error: unknown): string {
  if (!(error instanceof Error)) return '';
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const inner = 'lastNodeError' in error ? tell(error.lastNodeError) : '';
  return `${inner} ${code} ${error.message}`;
}

/** OpenSSL's and Node's names for what is wrong with a certificate help, and hold no secret. */
function tlsCode(text: string): string {
  const code = /\b(?:[A-Z]+_)+[A-Z]+\b/.exec(text)?.[0];
  return code === undefined ? '' : ` (${code})`;
}
