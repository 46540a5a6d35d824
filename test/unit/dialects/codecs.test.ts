/** What a codec writes, its client sends back, and the same codec reads: nothing is lost on the way. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { InvalidMessage } from '../../../src/dialects/codec.ts';
import { DIALECT_NAMES, DIALECTS } from '../../../src/dialects/dialects.ts';
import type { JsonObject } from '../../../src/protocol/json.ts';
import { arbitraryJsonObject } from '../../fixtures/arbitrary/json.ts';
import { WIRES } from '../../fixtures/dialects/wires.ts';

const CALL = { name: 'deploy', arguments: { target: 'staging' } };
const arbitraryKey = fc.stringMatching(/^[a-z][a-z0-9_-]{0,8}$/);
/** What an answer looks like to the gateway: an object without the member that only a wrapper has. */
const arbitraryAnswer = arbitraryJsonObject.filter((answer) => !('result' in answer));

describe.each(DIALECT_NAMES)('%s', (dialect) => {
  const { codec } = DIALECTS[dialect];
  const { ask, retry, questionsOf } = WIRES[dialect];
  const decode = (message: object) => {
    const { method, params } = message as { method: string; params: JsonObject };
    return codec.decode(message as JsonObject, method, params);
  };

  test('brings keys, answers and state back', () => {
    fc.assert(
      fc.property(
        fc.dictionary(arbitraryKey, arbitraryAnswer),
        fc.string(),
        (answers, requestState) => {
          const first = decode(ask(CALL.name, CALL.arguments));
          expect(first).toEqual({ method: 'tools/call', params: CALL });
          const params = { mode: 'url', message: 'Sign in', url: 'https://a.example' };
          const question = { method: 'elicitation/create', params };
          const inputRequests = Object.fromEntries(
            Object.keys(answers).map((key) => [key, question]),
          );
          const result = { resultType: 'input_required', inputRequests, requestState };
          const written = JSON.parse(JSON.stringify(codec.encode(result, first)));
          const shown = questionsOf(written);
          expect(new Map(shown.map((one) => [one.key, one.params]))).toEqual(
            new Map(Object.keys(answers).map((key) => [key, params])),
          );
          const again = decode(retry(CALL.name, CALL.arguments, written, answers));
          expect(again).toEqual({
            method: 'tools/call',
            params: { ...CALL, inputResponses: answers, requestState },
          });
        },
      ),
    );
  });

  test('writes a complete result without what only the final revision has', () => {
    const result = {
      resultType: 'complete',
      ttlMs: 0,
      cacheScope: 'private',
      content: [],
      _meta: { 'io.modelcontextprotocol/serverInfo': { name: 's', version: '1' }, vendor: 1 },
    };
    const marker = dialect === 'sep-2322' ? { resultType: 'complete' } : {};
    expect(codec.encode(result, { method: 'tools/call', params: CALL })).toEqual({
      result: { ...marker, content: [], _meta: { vendor: 1 } },
    });
  });

  test('reads any message, or says what is wrong with it', () => {
    fc.assert(
      fc.property(arbitraryJsonObject, arbitraryJsonObject, (members, params) => {
        const { method } = ask('x', {}) as { method: string };
        try {
          codec.decode({ ...members, method, params }, method, params);
        } catch (error) {
          if (!(error instanceof InvalidMessage)) throw error;
        }
      }),
    );
  });
});

describe('completed steps', () => {
  const { codec } = DIALECTS.sagas;
  const first = { method: 'tools/call', params: CALL };
  const interim = { resultType: 'input_required', inputRequests: {}, requestState: 's' };
  const sagaToken = (codec.encode(interim, first)['result'] as JsonObject)['sagaToken'];
  const resume = (params: JsonObject) => codec.decode({}, 'tools/resumeSaga', params);

  test('can be errors', () => {
    const error = { code: -1, message: 'rejected' };
    const completedSteps = [
      { stepId: 'a', result: { action: 'accept' } },
      { stepId: 'b', error },
    ];
    expect(resume({ sagaToken: sagaToken!, completedSteps })).toEqual({
      method: 'tools/call',
      params: { ...CALL, inputResponses: { a: { action: 'accept' } }, requestState: 's' },
      beyond: { inputErrors: { b: error } },
    });
  });

  test.each<[string, JsonObject]>([
    ['params.completedSteps must be a list', {}],
    ['params.completedSteps[0].stepId must be a string', { completedSteps: [5] }],
    [
      'params.completedSteps[0] must have either a result or an error',
      { completedSteps: [{ stepId: 'a' }] },
    ],
    [
      'params.completedSteps[0].result must be an object',
      { completedSteps: [{ stepId: 'a', result: 'yes' }] },
    ],
    [
      'params.completedSteps[0].error must have an integer "code" and a string "message"',
      { completedSteps: [{ stepId: 'a', error: { code: 'x' } }] },
    ],
    [
      'params.completedSteps[1].stepId repeats an earlier one',
      {
        completedSteps: [
          { stepId: '__proto__', result: {} },
          { stepId: '__proto__', result: {} },
        ],
      },
    ],
  ])('%s', (problem, steps) => {
    expect(() => resume({ sagaToken: sagaToken!, ...steps })).toThrow(new InvalidMessage(problem));
  });

  test.each(['', 'x', 'bnVsbA', 'e30', 'W'.repeat(4_000)])('the token %j is refused', (token) => {
    expect(() => resume({ sagaToken: token, completedSteps: [] })).toThrow(InvalidMessage);
  });
});
