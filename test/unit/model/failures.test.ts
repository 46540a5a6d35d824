/** What errors say of effects: never less than what may have happened, in the text as in the data. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  EFFECTS_IN_WORDS,
  RETRYABLE_IN_WORDS,
  FAILURES,
  type FailureReason,
  type MayHaveActed,
} from '../../../src/model/failures.ts';
import { CALL_FAILURES, UNUSUAL_FAILURES } from '../../fixtures/wire/call-failures.ts';
import type { Failure } from '../../../src/model/request.ts';
import {
  failureOfCall,
  failureOfRequest,
  losesCall,
} from '../../../src/model/upstream-failures.ts';
import { mayHaveActedWith } from '../../../src/upstream/http/error-response.ts';
import { UpstreamFailure, type UpstreamFailureCode } from '../../../src/model/upstream-failure.ts';

const CODES: readonly UpstreamFailureCode[] = [
  'session_gone',
  'unauthorized',
  'upstream_busy',
  'upstream_unavailable',
  'upstream_timeout',
  'upstream_protocol_error',
];

interface Data {
  readonly reason?: FailureReason;
  readonly mayHaveActed?: MayHaveActed;
  readonly retryable?: boolean;
}

const dataOf = ({ error }: Failure) => (error.data ?? {}) as unknown as Data;

/** Asserts that the failure is one of the catalogue, and that its text says what its data say. */
function expectListed(failure: Failure): void {
  const { reason = '-', mayHaveActed, retryable } = dataOf(failure);
  const kind = FAILURES[reason];
  expect(failure.error.code).toBe(kind.code);
  expect(kind.httpStatuses).toContain(failure.httpStatus);
  expect(kind.mayHaveActed).toContain(mayHaveActed);
  const words =
    retryable === true ? RETRYABLE_IN_WORDS : EFFECTS_IN_WORDS[mayHaveActed ?? 'unknown'];
  expect(failure.error.message).toSatisfy((message: string) => message.endsWith(words));
}

describe('every failure of a call', () => {
  test.each([...CALL_FAILURES, ...UNUSUAL_FAILURES].map((failure) => [dataOf(failure), failure]))(
    '%o is in the catalogue, and its text agrees',
    (_data, failure) => expectListed(failure as Failure),
  );
});

const failures = fc
  .record({
    code: fc.constantFrom(...CODES),
    mayHaveActed: fc.boolean(),
    httpStatus: fc.constantFrom(undefined, 401, 403, 404, 409, 429, 503),
  })
  .map(({ code, mayHaveActed, httpStatus }) => {
    const status = httpStatus === undefined ? {} : { httpStatus };
    return new UpstreamFailure(code, 'it failed', { mayHaveActed, ...status });
  });

describe('a failure of the upstream', () => {
  // Rule failures-3.
  test('says "no" only where the server certainly did not act, and "yes" where it has begun', () => {
    fc.assert(
      fc.property(failures, fc.boolean(), (failure, begun) => {
        const told = failureOfCall(failure, begun);
        expectListed(told);
        const { mayHaveActed } = dataOf(told);
        const expected = begun ? 'yes' : failure.details.mayHaveActed ? 'unknown' : 'no';
        expect(mayHaveActed).toBe(expected);
      }),
    );
  });

  // Rule failures-4: `upstream_unavailable`: no connection, or no handshake.
  test('that leaves nothing to wait for is a lost call, and not a server to be tried again', () => {
    fc.assert(
      fc.property(failures, fc.boolean(), (failure, begun) => {
        const { reason } = dataOf(failureOfCall(failure, begun));
        expect(reason === 'call_lost').toBe(losesCall(failure));
        if (reason === 'upstream_unavailable') expect(failure.details.mayHaveActed).toBe(false);
      }),
    );
  });

  test('of a request that acts on nothing says nothing of effects', () => {
    fc.assert(
      fc.property(failures, (failure) => {
        expect(dataOf(failureOfRequest(failure)).mayHaveActed).toBeUndefined();
      }),
    );
  });
});

// Rule failures-3.
test('of HTTP statuses, only those that mean a refusal say that the server did not act', () => {
  const statuses = Array.from({ length: 500 }, (_, index) => index + 100);
  expect(statuses.filter((status) => !mayHaveActedWith(status))).toEqual([
    307, 308, 400, 401, 403, 404, 405, 406, 407, 408, 410, 411, 413, 414, 415, 417, 421, 422, 425,
    426, 428, 429, 431,
  ]);
});
