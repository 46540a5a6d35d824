import { describe, expect, test } from 'vitest';
import { isSessionError, saysSessionGone } from '../../../../src/upstream/http/error-response.ts';

describe('a server that has forgotten the session says so', () => {
  // Rule expired-1 (2025-11-25 transports, "Session Management"): 404, or 400 with -32000, -32001 or -32600 and a
  // text about the session, means that the session is expired.
  test.each([
    [404, { code: -32001, message: 'Session not found' }],
    [404, { code: -32600, message: 'Session not found' }],
    [404, null],
    [400, { code: -32000, message: 'Bad Request: No valid session ID provided' }],
    [400, { code: -32000, message: 'Bad Request: Server not initialized' }],
    [400, { code: -32600, message: 'Invalid session' }],
    [400, { code: -32001, message: 'The session has expired' }],
  ])('with HTTP %i and %j', (status, error) => {
    expect(saysSessionGone(status, error)).toBe(true);
  });

  test.each([
    { code: -32600, message: 'Session not found' },
    { code: -32001, message: 'session terminated' },
  ])('with HTTP 200 and %j', (error) => {
    expect(isSessionError(error)).toBe(true);
  });
});

describe('nothing else is taken for it', () => {
  // Rule expired-1.
  test.each([
    [400, null],
    [400, { code: -32602, message: 'Unknown session type' }],
    [400, { code: -32000, message: 'Unsupported protocol version' }],
    [500, { code: -32000, message: 'Session not found' }],
    [401, { code: -32001, message: 'Session not found' }],
  ])('HTTP %i with %j', (status, error) => {
    expect(saysSessionGone(status, error)).toBe(false);
  });

  test('an error of the tool itself', () => {
    expect(isSessionError({ code: -32603, message: 'Session not found' })).toBe(false);
    expect(isSessionError({ code: -32000, message: 'Connection closed' })).toBe(false);
  });
});
