import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { DirectoryUnavailable } from '../../../../src/model/store.ts';
import { unavailable } from '../../../../src/fleet/redis/client.ts';

const STORE = 'redis://store:6379';

function replyError(message: string): Error {
  const error = new Error(message);
  error.name = 'ReplyError';
  return error;
}

test.each<[Error, string, string]>([
  [replyError('WRONGPASS invalid username-password pair'), 'auth', 'refused the username'],
  [replyError('NOAUTH Authentication required.'), 'auth', 'requires a username'],
  [replyError('NOPERM this user has no permissions'), 'auth', 'denies the user a command'],
  [Object.assign(new Error(''), { code: 'ECONNREFUSED' }), 'refused', 'refused the connection'],
  [new Error('getaddrinfo ENOTFOUND store'), 'name', 'the host name cannot be resolved'],
  [new Error('getaddrinfo EAI_AGAIN store'), 'name', 'the host name cannot be resolved'],
  [new Error('Command timed out'), 'timeout', 'did not respond in time'],
  [new Error('connect ETIMEDOUT'), 'timeout', 'did not respond in time'],
  [Object.assign(new Error(''), { code: 'CERT_HAS_EXPIRED' }), 'tls', '(CERT_HAS_EXPIRED)'],
  [replyError('READONLY You can’t write against a read only replica.'), 'store', '(READONLY)'],
  [replyError('MASTERDOWN Link with MASTER is down'), 'store', '(MASTERDOWN)'],
  [new Error('Connection is closed.'), 'network', 'cannot be reached'],
])('%s is told as %s', (cause, failure, words) => {
  const error = unavailable(cause, STORE);
  expect(error).toBeInstanceOf(DirectoryUnavailable);
  expect(error).toMatchObject({ code: 'coordination_unavailable', failure });
  expect(error.message).toContain(STORE);
  expect(error.message).toContain(words);
});

test('an error that says nothing of its own is told as the one before it', () => {
  const before = Object.assign(new Error(''), { code: 'ECONNREFUSED' });
  expect(unavailable(new Error('Connection is closed.'), STORE, before).failure).toBe('refused');
  expect(unavailable(new Error('Command timed out'), STORE, before).failure).toBe('timeout');
});

test('the reason that a Cluster client wraps is found', () => {
  const wrapped = Object.assign(new Error('Failed to refresh permits cache.'), {
    lastNodeError: replyError('WRONGPASS invalid username-password pair'),
  });
  expect(unavailable(wrapped, STORE).failure).toBe('auth');
});

describe('no part of the error itself is passed on', () => {
  const secret = 'correct-horse-battery';

  test.each([
    replyError(`ERR unknown command 'AUTH', with args beginning with: '${secret}'`),
    replyError(`${secret} is what the server made of it`),
    Object.assign(replyError('WRONGPASS no'), { command: { name: 'auth', args: [secret] } }),
    Object.assign(new Error(secret), { code: secret }),
  ])('%#: a secret in it stays in it', (cause) => {
    expect(inspect(unavailable(cause, STORE), { depth: 10, showHidden: true })).not.toContain(
      secret,
    );
  });
});
