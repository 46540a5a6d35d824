/** Retries that come more than once, or with a pointer that is used or invalid. */
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { askName } from '../../../fixtures/servers/legacy-server.ts';
import { accept, callTool } from '../../../fixtures/clients/modern-client.ts';
import {
  INVALID_STATE,
  greet,
  legacyGateway,
  text,
} from '../../../fixtures/gateways/legacy-gateway.ts';

describe('the same retry', () => {
  // Rule retries-2.
  test('sent again after the end gets the identical outcome, and nothing runs twice', async () => {
    let runs = 0;
    const { url } = await legacyGateway({
      tools: { count: async (call) => `${await askName(call)} ${(runs += 1)}` },
    });
    const asked = await callTool(url, 'count');
    const retry = {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    };
    const done = await callTool(url, 'count', retry);
    const again = await callTool(url, 'count', retry);
    expect(again.response.result).toEqual(done.response.result);
    expect(text(again)).toBe('Ada 1');
    expect(runs).toBe(1);
  });

  // Rule retries-2.
  test('sent again after the next question gets that question again', async () => {
    const { url } = await legacyGateway({
      tools: { two: async (call) => `${await askName(call)} ${await askName(call)}` },
    });
    const asked = await callTool(url, 'two');
    const retry = {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    };
    const second = await callTool(url, 'two', retry);
    const again = await callTool(url, 'two', retry);
    expect(again.response.result).toEqual(second.response.result);
  });

  // Rule retries-2: An identical retry gets the same outcome, on any replica, for 2 min after the end. Nothing runs
  // twice.
  test('sent twice at once gets the same result twice', async () => {
    const { url } = await legacyGateway({
      tools: {
        slow: async (call) => {
          const name = await askName(call);
          await delay(100);
          return name;
        },
      },
    });
    const asked = await callTool(url, 'slow');
    const retry = {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    };
    const [one, other] = await Promise.all([
      callTool(url, 'slow', retry),
      callTool(url, 'slow', retry),
    ]);
    expect(text(one)).toBe('Ada');
    expect(other.response.result).toEqual(one.response.result);
  });
});

describe('another retry with a used pointer', () => {
  // Rule retries-3 (MRTR, "Server Requirements" 5): Other answers to a used round, and the pointer of an earlier
  // round, are refused.
  test('is refused, at once and later', async () => {
    const { url, gateway } = await legacyGateway({
      tools: {
        slow: async (call) => {
          const name = await askName(call);
          await delay(100);
          return name;
        },
      },
    });
    const asked = await callTool(url, 'slow');
    const { requestState } = asked.response.result;
    const retry = (name: string) =>
      callTool(url, 'slow', {
        requestState,
        inputResponses: { 'elicitation-1': accept({ name }) },
      });
    const answers = await Promise.all([retry('Ada'), retry('Eve')]);
    const won = answers.filter((answer) => answer.response.result !== undefined);
    const told = answers.filter((answer) => answer.response.error !== undefined);
    expect(won).toHaveLength(1);
    expect(told.map((answer) => answer.response.error)).toEqual([INVALID_STATE]);
    const later = await retry('Mallory');
    expect(later.response.error).toEqual(INVALID_STATE);
    expect(gateway.log.named('pointer.refused').map(({ reason }) => reason)).toEqual([
      'consumed',
      expect.stringMatching(/consumed|ended/),
    ]);
  });
});

describe('an invalid pointer', () => {
  // Rule pointer-6 (MRTR, "Server Requirements" 4): Every refusal is 200, -32602 with `data.reason`
  // `invalid_request_state`. The cause is in `pointer.refused` and in the metrics only.
  test('gets the same refusal, whatever is wrong, and its own reason in the log', async () => {
    const { url, gateway } = await legacyGateway({ tools: { ...greet, other: greet.greet } });
    const asked = await callTool(url, 'greet');
    const { requestState } = asked.response.result as { requestState: string };
    const foreign = await legacyGateway({ tools: greet });
    const theirs = await callTool(foreign.url, 'greet');
    const answers = { 'elicitation-1': accept({ name: 'Ada' }) };
    const flipped = `${requestState.slice(0, -4)}${requestState.at(-4) === 'A' ? 'B' : 'A'}${requestState.slice(-3)}`;
    const attempts: [string, string, object, Record<string, string>][] = [
      ['greet', flipped, {}, {}],
      ['greet', 'garbage', {}, {}],
      ['greet', theirs.response.result.requestState, {}, {}],
      ['other', requestState, {}, {}],
      ['greet', requestState, { arguments: { changed: true } }, {}],
      ['greet', requestState, {}, { authorization: 'Bearer somebody-else' }],
    ];
    for (const [name, state, more, headers] of attempts) {
      const refused = await callTool(
        url,
        name,
        { requestState: state, inputResponses: answers, ...more },
        { headers },
      );
      expect(refused.status).toBe(200);
      expect(refused.response.error).toEqual(INVALID_STATE);
    }
    expect(gateway.log.named('pointer.refused').map(({ reason }) => reason)).toEqual([
      expect.any(String),
      expect.any(String),
      expect.any(String),
      'target',
      'digest',
      'principal',
    ]);
    const done = await callTool(url, 'greet', { requestState, inputResponses: answers });
    expect(text(done)).toBe('Hello Ada');
  });
});
