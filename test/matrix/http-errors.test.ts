/** Calls that a server of each revision refuses with an HTTP status, and what its client learns of that. */
import { describe, expect, test } from 'vitest';
import { gatewayBefore } from '../fixtures/gateways/test-gateway.ts';
import { callTool, type Exchanged } from '../fixtures/clients/modern-client.ts';
import { SERVERS, TITLE } from '../fixtures/revisions/table.ts';
import { wireServer, type HttpRefusal } from '../fixtures/revisions/wire.ts';

interface Case {
  readonly refusal: HttpRefusal;
  /** Of the answer to the client. Failures below the protocol are told in the answer, not by HTTP. */
  readonly status: number;
  readonly data: object;
  readonly calls: number;
}

const CASES: Record<string, Case> = {
  '401 asks the client for credentials': {
    refusal: { status: 401, headers: { 'www-authenticate': 'Bearer realm="wire"' } },
    status: 401,
    data: { reason: 'unauthorized', mayHaveActed: 'no' },
    calls: 1,
  },
  '403 stays 403': {
    refusal: { status: 403 },
    status: 403,
    data: { reason: 'unauthorized', mayHaveActed: 'no' },
    calls: 1,
  },
  '429 says when to try again': {
    refusal: { status: 429, headers: { 'retry-after': '3' } },
    status: 200,
    data: { reason: 'upstream_busy', retryAfterMs: 3_000, mayHaveActed: 'no' },
    calls: 1,
  },
  '503 says that the server is busy': {
    refusal: { status: 503 },
    status: 200,
    data: { reason: 'upstream_busy', mayHaveActed: 'unknown' },
    calls: 1,
  },
  '500 is not tried again, since the call may have acted': {
    refusal: { status: 500 },
    status: 200,
    data: { reason: 'call_lost', mayHaveActed: 'unknown' },
    calls: 1,
  },
  '413 says that the server did not take it': {
    refusal: { status: 413 },
    status: 200,
    data: { reason: 'upstream_protocol_error', mayHaveActed: 'no' },
    calls: 1,
  },
  '404 is a session that was forgotten, and one more is tried': {
    refusal: { status: 404 },
    status: 200,
    data: { reason: 'upstream_session_lost', mayHaveActed: 'no' },
    calls: 2,
  },
};

/** A call that is lost is told to the model, as a result of the tool. */
function saidBy({ response }: Exchanged): object {
  const meta = response.result?._meta;
  if (meta === undefined) return response.error.data;
  return { reason: meta['mrtr-gateway/reason'], mayHaveActed: meta['mrtr-gateway/mayHaveActed'] };
}

describe.each(SERVERS)(TITLE, (shape) => {
  // Rule failures-1 (authorization, "Error Handling"): 401 and 403 of the server stay the status, with `data.reason`
  // `unauthorized` and the unchanged `WWW-Authenticate`.
  // Rules responses-4, passthrough-5, failures-5, failures-6, expired-3.
  test.each(Object.entries(CASES))('HTTP %s', async (_title, { refusal, status, data, calls }) => {
    const server = await wireServer(shape, { refusedCall: refusal });
    const { gateway } = await gatewayBefore(server, { transport: shape.transport });
    const refused = await callTool(gateway.url, 'any');
    expect(refused.status).toBe(status);
    expect(saidBy(refused)).toMatchObject(data);
    expect(refused.headers.get('www-authenticate')).toBe(
      refusal.headers?.['www-authenticate'] ?? null,
    );
    expect(server.methods().filter((method) => method === 'tools/call')).toHaveLength(calls);
  });
});
