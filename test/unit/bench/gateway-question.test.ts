/** How the benchmark reads the response to a call that asks. */
import { describe, expect, test } from 'vitest';
import { readRound } from '../../../bench/clients/gateway-question.ts';

const reply = (result: object) => JSON.stringify({ jsonrpc: '2.0', id: 7, result });
const QUESTION = reply({
  resultType: 'input_required',
  inputRequests: { name: {} },
  requestState: 'sealed',
});
const ROUND = { callNumber: 7, keys: ['name'], requestState: 'sealed' };

describe('the response to a call that asks', () => {
  test('is read from JSON', () => {
    expect(readRound(7, QUESTION)).toEqual(ROUND);
  });

  test('is read from an event stream, after heartbeats', () => {
    const stream = `: heartbeat\n\nevent: message\ndata: ${QUESTION}\n\n`;
    expect(readRound(7, stream)).toEqual(ROUND);
  });

  test.each([
    ['a result', reply({ content: [] })],
    ['an error', '{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no"}}'],
  ])('is no question where it is %s', (_what, text) => {
    expect(readRound(7, text)).toBeNull();
  });
});
