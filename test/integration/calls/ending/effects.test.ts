/**
 * Every failure of a call that docs/operate/errors.md lists, brought about on the wire: what the client is
 * told of effects, in the data and in the text, is what the table says.
 */
import { describe, expect, test } from 'vitest';
import { EFFECTS_IN_WORDS, RETRYABLE_IN_WORDS } from '../../../../src/model/failures.ts';
import type { Exchanged } from '../../../fixtures/clients/modern-client.ts';
import { UNUSUAL_FAILURES } from '../../../fixtures/wire/call-failures.ts';
import { sendRaw } from '../../../fixtures/clients/raw-http.ts';
import { codesIn, tableWith, textOf } from '../../../unit/docs/markdown-tables.ts';
import { SITUATIONS } from '../../../fixtures/failures/situations.ts';
import { callBody, ground, rawCall } from '../../../fixtures/gateways/survival-testbed.ts';

/** Made where nothing less than several processes or a defect of ours brings them about. */
const ELSEWHERE: readonly (readonly [reason: string, mayHaveActed: string])[] = [
  ...UNUSUAL_FAILURES.map(({ error: { data } }) => {
    const { reason, mayHaveActed } = data as { reason: string; mayHaveActed: string };
    return [reason, mayHaveActed] as const;
  }),
  // See "a defect of ours" in test/unit/edge/edge.test.ts.
  ['internal_error', 'unknown'],
  // See test/integration/replicas/homes.test.ts.
  ['coordination_unavailable', 'no'],
  // See test/integration/replicas/direct-relay.test.ts.
  ['request_too_large', 'no'],
  ['request_too_large', 'yes'],
  // See test/integration/calls/limits/admission.test.ts.
  ['rate_limited', 'no'],
  ['tool_busy', 'no'],
  // See test/integration/calls/limits/circuit-breaker.test.ts.
  ['circuit_open', 'no'],
  // See test/integration/observability/live.test.ts.
  ['cancelled_by_operator', 'unknown'],
  ['cancelled_by_operator', 'yes'],
];

const NEW_CALL = callBody();
const { params: PARAMS, ...MESSAGE } = JSON.parse(NEW_CALL);
const RETRY = JSON.stringify({ ...MESSAGE, params: { ...PARAMS, requestState: 'sealed' } });

const TABLE = tableWith(textOf('docs/operate/errors.md'), '`data.reason`', 'Code', 'HTTP').rows.map(
  ([reason = '', code = '', http = '', said = '']) => ({
    reason: codesIn(reason)[0] ?? '-',
    code: Number(code),
    statuses: http.split(', ').map(Number),
    said: said === '-' ? [] : said.split(', '),
  }),
);

/** What a program reads, wherever it stands. */
function saidBy({ response }: Exchanged) {
  const meta = response.result?._meta;
  const data = meta === undefined ? response.error?.data : null;
  return {
    reason: meta?.['mrtr-gateway/reason'] ?? data?.reason ?? '-',
    mayHaveActed: meta?.['mrtr-gateway/mayHaveActed'] ?? data?.mayHaveActed,
    text: response.error?.message ?? response.result?.content[0].text,
    retryable: data?.retryable === true,
  };
}

describe('a call that fails says whether the server may have acted', () => {
  // Rule failures-3 (RFC 9110, sections 9.2.2 and 15): `data.mayHaveActed` of an error, or
  // `_meta["mrtr-gateway/mayHaveActed"]` of a result, says whether the server acted: `no`, `yes` or `unknown`.
  // Rule failures-4.
  test.each(SITUATIONS)('%s, %s: %s', async (reason, mayHaveActed, _title, bringAbout) => {
    const exchanged = await bringAbout();
    const said = saidBy(exchanged);
    expect(said).toMatchObject({ reason, mayHaveActed });
    const words = said.retryable ? RETRYABLE_IN_WORDS : EFFECTS_IN_WORDS[mayHaveActed];
    expect(said.text).toContain(words);
    const row = TABLE.find((candidate) => candidate.reason === reason);
    expect(row?.said).toContain(mayHaveActed);
    expect(row?.statuses).toContain(exchanged.status);
    const { error } = exchanged.response;
    if (error !== undefined) expect(error.code).toBe(row?.code);
  });

  // Rule failures-8: A refusal with another status than 200 says `no` for a first request, and `unknown` for a retry.
  test.each([
    ['a new call whose header is wrong', 'no', { 'mcp-name': 'other' }, NEW_CALL],
    ['a retry whose header is wrong', 'unknown', { 'mcp-name': 'other' }, RETRY],
    ['a retry of another type', 'unknown', { 'content-type': 'text/plain' }, RETRY],
    ['what is no JSON', 'unknown', {}, RETRY.slice(0, -1)],
    [
      'what comes from a page that may not call',
      'unknown',
      { origin: 'https://evil.example' },
      RETRY,
    ],
  ])('%s, refused: %s', async (_what, mayHaveActed, changes, body) => {
    const { url } = await ground();
    const answer = await sendRaw(url, rawCall({ changes, body }));
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(JSON.parse(answer.body).error.data.mayHaveActed).toBe(mayHaveActed);
  });

  // Rule failures-3.
  test('and each row of the table is brought about', () => {
    const pairs = (list: readonly (readonly [string, string, ...unknown[]])[]) =>
      list.map(([reason, mayHaveActed]) => `${reason} ${mayHaveActed}`);
    const listed = TABLE.flatMap(({ reason, said }) => said.map((word) => `${reason} ${word}`));
    const broughtAbout = new Set([...pairs(SITUATIONS), ...pairs(ELSEWHERE)]);
    expect([...broughtAbout].sort()).toEqual(listed.sort());
  });
});
