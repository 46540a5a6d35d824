/** Calls that ask in the middle, over real sockets: what the client sees, and what the legacy server is told. */
import { setTimeout as delay } from 'node:timers/promises';
import {
  CreateMessageResultSchema,
  ListRootsResultSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, test } from 'vitest';
import {
  startTestGateway,
  type GatewayOverrides,
  type TestGateway,
} from '../../fixtures/gateways/gateway.ts';
import {
  askName,
  LegacyServer,
  type LegacyServerOptions,
  type Tool,
  type ToolCall,
} from '../../fixtures/servers/legacy-server.ts';
import { advanceUntil, ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import { accept, callTool, send, type Exchanged } from '../../fixtures/clients/modern-client.ts';
import { json, legacyServer } from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

async function start(
  server: LegacyServerOptions,
  overrides: GatewayOverrides = {},
): Promise<{ legacy: LegacyServer; gateway: TestGateway; url: string }> {
  const legacy = await LegacyServer.start(server);
  stopAfterTest(() => legacy.stop());
  const gateway = await startTestGateway(legacy.url, overrides);
  stopAfterTest(() => gateway.close());
  return { legacy, gateway, url: gateway.url };
}

const INVALID_STATE = {
  code: -32602,
  message:
    'Invalid or expired requestState. The server may have acted on this call: check whether it took effect before you call again',
  data: { reason: 'invalid_request_state', mayHaveActed: 'unknown' },
};
const text = (exchanged: { response: { result?: { content?: { text: string }[] } } }) =>
  exchanged.response.result?.content?.[0]?.text;
const greet = {
  greet: async (call: Parameters<typeof askName>[0]) => `Hello ${await askName(call)}`,
};

/** The same, but it does not take its question back when it is cancelled. */
const greetDeaf = {
  greet: async (call: Parameters<typeof askName>[0]) =>
    `Hello ${await askName(call, 'Your name?', 'name', new AbortController().signal)}`,
};

describe('a question in the middle of a call', () => {
  // Rule shown-1 (MRTR, "Basic Workflow"): The questions of a call become the `inputRequests` of an
  // `InputRequiredResult` with which the gateway responds to the client’s request, under HTTP status 200.
  // Beside them are `requestState`, the name that the server gave itself, and no cache fields.
  // Rule retries-1.
  test('becomes an InputRequiredResult, and its answer finishes the call', async () => {
    const { url } = await start({ tools: greet });
    const asked = await callTool(url, 'greet');
    expect(asked.status).toBe(200);
    expect(asked.response.result).toEqual({
      resultType: 'input_required',
      inputRequests: {
        'elicitation-1': {
          method: 'elicitation/create',
          params: {
            mode: 'form',
            message: 'Your name?',
            requestedSchema: {
              type: 'object',
              properties: { name: { type: 'string' } },
              required: ['name'],
            },
          },
        },
      },
      requestState: expect.stringMatching(/^[\w-]+\.\.[\w-]+\.[\w-]+\.[\w-]+$/),
      _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'legacy', version: '1.2.3' } },
    });
    const { requestState } = asked.response.result;
    const done = await callTool(url, 'greet', {
      requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    expect(done.response.result).toEqual({
      resultType: 'complete',
      content: [{ type: 'text', text: 'Hello Ada' }],
      _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'legacy', version: '1.2.3' } },
    });
  });

  // Rule shown-7 (MRTR, "Server Requirements" 8): What a server asks after it was answered is another round,
  // with a pointer of its own. A call has `parking.maxRounds` of them (10 by default); a server that goes on
  // asking is cancelled, and the client gets error -32603 with `data.reason` `too_many_rounds`.
  test('may be followed by another, each with its own pointer', async () => {
    const { url } = await start({
      tools: {
        two: async (call) => `${await askName(call, 'First?')} ${await askName(call, 'Second?')}`,
      },
    });
    const first = await callTool(url, 'two');
    const second = await callTool(url, 'two', {
      requestState: first.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'a' }) },
    });
    expect(Object.keys(second.response.result.inputRequests)).toEqual(['elicitation-2']);
    expect(second.response.result.requestState).not.toBe(first.response.result.requestState);
    const done = await callTool(url, 'two', {
      requestState: second.response.result.requestState,
      inputResponses: { 'elicitation-2': accept({ name: 'b' }) },
    });
    expect(text(done)).toBe('a b');
  });

  test('goes to the client together with others that come at the same time', async () => {
    const { url } = await start({
      tools: {
        many: async (call) => {
          const sampled = call.extra.sendRequest(
            {
              method: 'sampling/createMessage',
              params: {
                messages: [{ role: 'user', content: { type: 'text', text: 'hi' } }],
                maxTokens: 5,
              },
            },
            CreateMessageResultSchema,
          );
          const listed = call.extra.sendRequest({ method: 'roots/list' }, ListRootsResultSchema);
          const [name, { content }, { roots }] = await Promise.all([
            askName(call),
            sampled,
            listed,
          ]);
          return `${name} ${'text' in content ? content.text : ''} ${roots[0]?.uri}`;
        },
      },
    });
    const asked = await callTool(url, 'many');
    const { inputRequests, requestState } = asked.response.result;
    expect(Object.keys(inputRequests)).toEqual(['sampling-1', 'roots-1', 'elicitation-1']);
    expect(inputRequests['roots-1']).toEqual({ method: 'roots/list', params: {} });
    const done = await callTool(url, 'many', {
      requestState,
      inputResponses: {
        'elicitation-1': accept({ name: 'Ada' }),
        'sampling-1': { role: 'assistant', model: 'm', content: { type: 'text', text: 'hello' } },
        'roots-1': { roots: [{ uri: 'file:///a' }] },
      },
    });
    expect(text(done)).toBe('Ada hello file:///a');
  });

  // Rules questions-4, methods-1.
  test('may come in a prompt and in a resource', async () => {
    const { url } = await start({
      prompts: { hello: (call) => askName(call) },
      resources: { 'test://one': (call) => askName(call) },
    });
    for (const [method, params, content] of [
      ['prompts/get', { name: 'hello' }, 'messages'],
      ['resources/read', { uri: 'test://one' }, 'contents'],
    ] as const) {
      const asked = await send(url, method, params);
      expect(asked.response.result).not.toHaveProperty('ttlMs');
      const done = await send(url, method, {
        ...params,
        requestState: asked.response.result.requestState,
        inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
      });
      expect(JSON.stringify(done.response.result[content])).toContain('Ada');
    }
  });

  // Rule answers-1 (elicitation, "Response Actions"): Accepted, declined and cancelled questions go back as
  // that: `decline` and `cancel` with nothing beside the action, `accept` with its content, which is an empty
  // object where the client sent none.
  test('is answered upstream with what the user decided when the user says no', async () => {
    const { url } = await start({ tools: greet });
    for (const action of ['decline', 'cancel']) {
      const asked = await callTool(url, 'greet');
      const done = await callTool(url, 'greet', {
        requestState: asked.response.result.requestState,
        inputResponses: { 'elicitation-1': { action } },
      });
      expect(text(done)).toBe(`Hello ${action}`);
    }
  });
});

describe('answers', () => {
  const both = {
    both: async (call: Parameters<typeof askName>[0]) =>
      (await Promise.all([askName(call, 'One?'), askName(call, 'Two?')])).join(' '),
  };

  // Rule answers-4 (MRTR, "Error Handling"): Some of the answers go to the server at once, and the client is
  // asked for the others in a further round.
  test('that are partial lead to a new question for what is missing', async () => {
    const { url, legacy } = await start({ tools: both });
    const asked = await callTool(url, 'both');
    const partial = await callTool(url, 'both', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-2': accept({ name: 'two' }) },
    });
    expect(Object.keys(partial.response.result.inputRequests)).toEqual(['elicitation-1']);
    expect(legacy.methods().filter((method) => method === 'response')).toHaveLength(1);
    const done = await callTool(url, 'both', {
      requestState: partial.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'one' }) },
    });
    expect(text(done)).toBe('one two');
  });

  // Rule answers-3 (MRTR, "Error Handling"): Answers to keys that nobody asked for, or that are no longer open,
  // are ignored.
  test('to keys that nobody asked for are ignored', async () => {
    const { url } = await start({ tools: greet });
    const asked = await callTool(url, 'greet');
    const done = await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: {
        'elicitation-1': accept({ name: 'Ada' }),
        'elicitation-7': accept({ name: 'Eve' }),
        __proto__x: accept(),
      },
    });
    expect(text(done)).toBe('Hello Ada');
  });

  // Rule answers-5 (MRTR, "Error Handling"): A retry without any answer is asked the same again, with a fresh
  // pointer to the same round.
  test('that are none at all lead to the same question again', async () => {
    const { url } = await start({ tools: greet });
    const asked = await callTool(url, 'greet');
    const again = await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: { other: accept() },
    });
    expect(again.response.result.inputRequests).toEqual(asked.response.result.inputRequests);
    const done = await callTool(url, 'greet', {
      requestState: again.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    expect(text(done)).toBe('Hello Ada');
  });

  // Rule answers-6 (MRTR, "Error Handling"): An answer that cannot be one (no object; an unknown action; a
  // form value that is not text, number, boolean or list of texts; a sampling answer without role, model or
  // content; roots that are not a list) is refused with error -32602, `data.reason` `invalid_input_response` and
  // the key in `data.key`. None of the answers beside it goes to the server, and the pointer stays good.
  test('that are ill-formed are refused by their key, and the pointer stays good', async () => {
    const { url } = await start({ tools: greet });
    const asked = await callTool(url, 'greet');
    const { requestState } = asked.response.result;
    for (const wrong of [
      { action: 'maybe' },
      { action: 'accept', content: [] },
      { action: 'accept', content: { name: { first: 'Ada' } } },
    ]) {
      const refused = await callTool(url, 'greet', {
        requestState,
        inputResponses: { 'elicitation-1': wrong },
      });
      expect(refused.status).toBe(200);
      expect(refused.response.error).toMatchObject({
        code: -32602,
        message: expect.stringContaining('inputResponses["elicitation-1"]'),
        data: { reason: 'invalid_input_response', key: 'elicitation-1' },
      });
    }
    const done = await callTool(url, 'greet', {
      requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    expect(text(done)).toBe('Hello Ada');
  });
});

describe('capabilities that the client did not declare', () => {
  // Rule undeclared-2 (basic, "Error Codes"): A call that succeeds nevertheless is a success. When it fails after
  // that, in whatever way, the client gets HTTP status 400 and error -32021 with everything in
  // `data.requiredCapabilities` that was refused in the call, and in `data.upstream` the error of the server, where
  // it gave one.
  test('are never asked for; the server is told so, and its success counts', async () => {
    const { url, legacy } = await start({
      tools: {
        careful: async (call) => {
          const answer = await askName(call).catch((error: unknown) => String(error));
          return `went on: ${answer}`;
        },
      },
    });
    const done = await callTool(url, 'careful', {}, { capabilities: { sampling: {} } });
    expect(text(done)).toContain('went on');
    expect(done.response.result.resultType).toBe('complete');
    const initialize = legacy.received
      .filter(({ method }) => method === 'initialize')
      .map(({ body }) => body.params.capabilities);
    expect(initialize).toContainEqual({ sampling: {} });
  });

  // Rules responses-4, undeclared-2.
  test('make the failure of the call a -32021 that names them', async () => {
    const { url } = await start({ tools: greet });
    const failed = await callTool(url, 'greet', {}, { capabilities: {} });
    expect(failed.status).toBe(400);
    expect(failed.response.error).toMatchObject({
      code: -32021,
      data: {
        requiredCapabilities: { elicitation: { form: {} } },
        upstream: { code: -32601 },
      },
    });
  });

  // Rule undeclared-3: With `questions.strictCapabilities` such a question cancels the call at once, with the
  // same error.
  test('end the call at once where the operator wants that', async () => {
    const { url } = await start(
      { tools: { careful: (call) => askName(call).catch(() => 'went on') } },
      { questions: { strictCapabilities: true } },
    );
    const failed = await callTool(url, 'careful', {}, { capabilities: {} });
    expect(failed.response.error).toMatchObject({ code: -32021 });
  });
});

// Rule envelope-1.
describe('a retry that declares less than the request before', () => {
  const retryOf = (asked: Exchanged, capabilities: object) =>
    [{ requestState: asked.response.result.requestState }, { capabilities }] as const;

  // Rule undeclared-4 (MRTR, "Server Requirements" 7): What a retry declares counts from there on. Questions
  // that it does not cover are not asked again: it gets error -32021, nothing is used up, and the same
  // pointer serves a retry that declares more. Complete answers count whatever it declares.
  test('is not asked what it cannot answer, and the round is not used up', async () => {
    const { url } = await start({
      tools: { greet: async (call) => `Hello ${await askName(call)}` },
    });
    const asked = await callTool(url, 'greet');
    const refused = await callTool(url, 'greet', ...retryOf(asked, {}));
    expect(refused.response.error.code).toBe(-32021);
    const again = await callTool(url, 'greet', ...retryOf(asked, { elicitation: {} }));
    expect(again.response.result.resultType).toBe('input_required');
  });

  // Rule undeclared-4.
  test('is not given the next question in place of a lost response', async () => {
    const tools = {
      two: async (call: ToolCall) =>
        `${await askName(call, 'First?')} ${await askName(call, 'Second?')}`,
    };
    const { url } = await start({ tools });
    const asked = await callTool(url, 'two');
    const { requestState, inputRequests } = asked.response.result;
    const [key] = Object.keys(inputRequests);
    const answers = { requestState, inputResponses: { [String(key)]: accept({ name: 'a' }) } };
    const next = await callTool(url, 'two', answers);
    expect(next.response.result.resultType).toBe('input_required');
    const repeated = await callTool(url, 'two', answers, { capabilities: {} });
    expect(repeated.response.error.code).toBe(-32021);
    expect((await callTool(url, 'two', answers)).response.result).toEqual(next.response.result);
  });

  // Rule undeclared-4.
  test('counts for what the server asks next: it hears that nobody can answer', async () => {
    const tools = {
      late: async (call: ToolCall) => {
        await held.promise;
        return `Hello ${await askName(call)}`;
      },
    };
    const held = Promise.withResolvers<void>();
    const { url, legacy } = await start({ tools }, { calls: { maxHoldMs: 20 } });
    const first = await callTool(url, 'late');
    const polled = await callTool(url, 'late', ...retryOf(first, {}));
    held.resolve();
    expect((await legacy.saw('response')).body.error).toBeDefined();
    const done = await callTool(url, 'late', ...retryOf(polled, {}));
    expect(done.response.error.code).toBe(-32021);
  });
});

describe('the same retry', () => {
  // Rule retries-2.
  test('sent again after the end gets the identical outcome, and nothing runs twice', async () => {
    let runs = 0;
    const { url } = await start({
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
    const { url } = await start({
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

  // Rule retries-2: A retry that is repeated to the letter gets what the first one got, in any order of its
  // members: the same outcome while both wait, the same next question, and the same outcome for
  // `parking.redeliver` (2 min by default) after the end. Nothing runs twice, and the server is not answered
  // twice.
  test('sent twice at once gets the same result twice', async () => {
    const { url } = await start({
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
  // Rule retries-3 (MRTR, "Server Requirements" 5): A retry with other answers to a round that is used up, or
  // with the pointer of any round before the last, is refused as every bad pointer is.
  test('is refused, at once and later', async () => {
    const { url, gateway } = await start({
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
  // Rule pointer-6 (MRTR, "Server Requirements" 4): Every refusal is the same to the client: error -32602
  // `Invalid or expired requestState` with `data.reason` `invalid_request_state`, HTTP status 200. Why it was
  // refused is in the log line `pointer.refused` and in the metrics alone.
  test('gets the same refusal, whatever is wrong, and its own reason in the log', async () => {
    const { url, gateway } = await start({ tools: { ...greet, other: greet.greet } });
    const asked = await callTool(url, 'greet');
    const { requestState } = asked.response.result as { requestState: string };
    const foreign = await start({ tools: greet });
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

describe('while nobody is connected', () => {
  // Rule settled-1: What a server settles while its client is away (it timed out, or went on without the answer)
  // is kept for `parking.ttl` and given to the retry, whose answers come too late.
  test('what the server settles by itself is kept for the retry', async () => {
    const { url, gateway } = await start({
      tools: {
        impatient: async (call) => {
          const patience = AbortSignal.timeout(150);
          return Promise.race([
            askName(call),
            new Promise<string>((resolve) => {
              patience.addEventListener('abort', () => resolve('went on without you'));
            }),
          ]);
        },
      },
    });
    const asked = await callTool(url, 'impatient');
    await gateway.log.saw('call.settled');
    const done = await callTool(url, 'impatient', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'late' }) },
    });
    expect(text(done)).toBe('went on without you');
  });

  // Rule time-and-room-1 (MRTR, "Server Requirements" 5 and 8): A round may wait for `parking.ttl` (10 min by
  // default), from when it was last asked, and a call for `parking.callTtl` (1 h) over all of its
  // rounds, on whatever replicas. After that the server is told to stop, and a retry is refused as a bad
  // pointer. One that came in time and still waits for a stream that broke gets error -32603 with `data.reason`
  // `upstream_timeout`.
  test('a round that is not answered in time is closed out and cancelled upstream', async () => {
    const clock = new ManualClock();
    const overrides = { clock, parking: { ttlMs: 60_000 } };
    const { url, legacy, gateway } = await start({ tools: greetDeaf }, overrides);
    const asking = callTool(url, 'greet');
    await legacy.saw('tools/call');
    const asked = await advanceUntil(clock, asking);
    clock.advance(61_000);
    const answer = await legacy.saw('response');
    expect(answer.body.result).toEqual({ action: 'cancel' });
    const late = await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'late' }) },
    });
    expect(late.response.error).toEqual(INVALID_STATE);
    expect(gateway.log.named('pointer.refused')).toMatchObject([{ reason: 'expired' }]);
  });

  // Rule time-and-room-4 (2025-11-25 ping, "Implementation Considerations"): While a call waits for its
  // client its session is pinged every `upstream.pingInterval` (1 min by default). A server that does not
  // reply to two pings in a row, or does not know the session, counts as gone; credentials that are
  // refused are not used for pings again.
  // Rule keep-alive-1 (2025-11-25 ping, "Usage Patterns"): A session whose call waits for its client is sent
  // a `ping` every `upstream.pingInterval` (60 seconds by default), so that the server does not expire it.
  test('a human may take six minutes: the session is pinged and the answer still arrives', async () => {
    const clock = new ManualClock();
    const { url, legacy } = await start({ tools: greet }, { clock });
    const asked = await advanceUntil(clock, callTool(url, 'greet'));
    for (let minute = 1; minute <= 6; minute += 1) {
      clock.advance(60_000);
      await legacy.saw('ping', minute);
      // The reply to the ping comes before this one.
      await send(url, 'tools/list');
    }
    const done = await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    expect(text(done)).toBe('Hello Ada');
  });
});

describe('a server with a short timeout', () => {
  const patient = (timeout: number) => ({
    greet: async ({ extra }: ToolCall) => {
      const asked = await extra.sendRequest(
        { method: 'roots/list' },
        ListRootsResultSchema,
        // Asking for progress is what makes the SDK send a progress token.
        { timeout, resetTimeoutOnProgress: true, onprogress: () => {} },
      );
      return String(asked.roots[0]?.uri);
    },
  });

  // Rule time-and-room-5 (2025-11-25 lifecycle, "Timeouts"): A server that asked with a progress token is
  // told every 15 s, with growing progress, that a user still thinks, so that a server that restarts its timeout
  // with each progress goes on waiting.
  // Rule keep-alive-4 (2025-11-25 lifecycle, "Timeouts"): A server that gave its question a progress token is
  // told of progress every 15 seconds until it is answered: some restart their timeout with that.
  test('that restarts its timeout with each progress gets progress every 15 seconds while a user thinks', async () => {
    const clock = new ManualClock();
    const { url, legacy } = await start({ tools: patient(600_000) }, { clock });
    const asked = await advanceUntil(clock, callTool(url, 'greet'));
    for (let time = 1; time <= 5; time += 1) {
      clock.advance(15_000);
      const told = await legacy.saw('notifications/progress', time);
      expect(told.body.params.progress, 'progress grows').toBe(time);
    }
    const done = await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'roots-1': { roots: [{ uri: 'file:///home' }] } },
    });
    expect(text(done)).toBe('file:///home');
    clock.advance(60_000);
    // Progress that was sent would have come before this.
    await send(url, 'tools/list');
    expect(legacy.methods().filter((name) => name === 'notifications/progress')).toHaveLength(5);
  });
});

describe('limits', () => {
  // Rule time-and-room-3.
  test('a request that is sent after its client was told to retry is sent whole', async () => {
    const opened = Promise.withResolvers<void>();
    let isHeld = false;
    const server = await legacyServer(
      ({ body }, response) => {
        const content = [{ type: 'text', text: body.params.arguments.name }];
        json(response, 200, { jsonrpc: '2.0', id: body.id, result: { content } });
      },
      {
        onNotification: async (_received, response) => {
          if (isHeld) await opened.promise;
          response.writeHead(202).end();
        },
      },
    );
    stopAfterTest(() => server.stop());
    const gateway = await startTestGateway(server.url, { calls: { maxHoldMs: 20 } });
    stopAfterTest(() => gateway.close());
    isHeld = true;
    const args = { arguments: { name: 'Ada' } };
    const first = await callTool(gateway.url, 'greet', args);
    const { requestState } = first.response.result;
    expect(first.response.result.resultType).toBe('input_required');
    opened.resolve();
    await server.saw(({ body }) => body?.method === 'tools/call');
    const done = await callTool(gateway.url, 'greet', { ...args, requestState });
    expect(text(done)).toBe('Ada');
  });

  // Rule time-and-room-6: At most `limits.maxParkedCalls` wait, and `limits.maxParkedCallsPerPrincipal` for
  // one caller. A call that would be one more is cancelled instead of being parked, and the client gets error
  // -32603 with `data.reason` `too_many_parked_calls`; those that wait already are left alone. One that `calls.maxHold`
  // would park stays with its client instead.
  test('a caller beyond its number of parked calls gets a clear error, and upstream is cancelled', async () => {
    const { url, legacy } = await start(
      { tools: greetDeaf },
      { limits: { maxParkedCallsPerPrincipal: 1 } },
    );
    const first = await callTool(url, 'greet');
    const second = await callTool(url, 'greet');
    expect(second.response.error).toMatchObject({
      code: -32603,
      data: { reason: 'too_many_parked_calls' },
    });
    const closedOut = await legacy.saw('response');
    expect(closedOut.body.result).toEqual({ action: 'cancel' });
    const other = await callTool(url, 'greet', {}, { headers: { authorization: 'Bearer other' } });
    expect(other.response.result.resultType).toBe('input_required');
    const done = await callTool(url, 'greet', {
      requestState: first.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    expect(text(done)).toBe('Hello Ada');
    const third = await callTool(url, 'greet');
    expect(third.response.result.resultType).toBe('input_required');
  });

  // Rule time-and-room-10: Anonymous callers cannot be told apart, so they have a limit of their own together,
  // `limits.maxAnonymousParkedCalls`, and none each. It does not count towards the limits of others. The log names each limit that is
  // reached, at most once a minute.
  test('anonymous callers share a limit of their own, and the log says when it is reached', async () => {
    const { gateway, url } = await start(
      { tools: greet },
      {
        limits: { maxAnonymousParkedCalls: 3, maxParkedCallsPerPrincipal: 1 },
        // Nobody here is the user of this machine.
        edge: { trustedProxies: ['10.0.0.1'] },
      },
    );
    const parked = await Promise.all([1, 2, 3].map(() => callTool(url, 'greet')));
    expect(parked.map(({ response }) => response.result.resultType)).toEqual(
      Array(3).fill('input_required'),
    );
    for (const attempt of [1, 2]) {
      const refused = await callTool(url, 'greet');
      expect(refused.response.error.data.reason, `${attempt}`).toBe('too_many_parked_calls');
    }
    expect(gateway.log.named('call.parking_limit')).toEqual([
      { limit: 'limits.maxAnonymousParkedCalls', refused: 1 },
    ]);
    const other = await callTool(url, 'greet', {}, { headers: { authorization: 'Bearer other' } });
    expect(other.response.result.resultType).toBe('input_required');
  });

  // Rule time-and-room-6.
  test('a client that would be told to retry keeps waiting while no further call can be parked', async () => {
    const held = Promise.withResolvers<void>();
    const tools = { late: async () => held.promise.then(() => 'done') };
    const limits = { maxParkedCallsPerPrincipal: 1 };
    const { url } = await start({ tools }, { limits, calls: { maxHoldMs: 20 } });
    const first = await callTool(url, 'late');
    const second = callTool(url, 'late');
    // So late that the time of the second one is over as well.
    setTimeout(() => held.resolve(), 500);
    expect(text(await second)).toBe('done');
    const { requestState } = first.response.result;
    expect(text(await callTool(url, 'late', { requestState }))).toBe('done');
  });

  // Rule time-and-room-6.
  test('the gateway as a whole parks no more calls than it may', async () => {
    const { url } = await start({ tools: greet }, { limits: { maxParkedCalls: 2 } });
    const answers = [await callTool(url, 'greet'), await callTool(url, 'greet')];
    expect(answers.every(({ response }) => response.result !== undefined)).toBe(true);
    const refused = await callTool(url, 'greet', {}, { headers: { authorization: 'Bearer x' } });
    expect(refused.response.error.data).toEqual({
      reason: 'too_many_parked_calls',
      mayHaveActed: 'yes',
    });
  });

  // Rule shown-7.
  test('a server that never stops asking is stopped', async () => {
    const { url } = await start(
      {
        tools: {
          endless: async (call) => {
            for (;;) await askName(call);
          },
        },
      },
      { parking: { maxRounds: 2 } },
    );
    let answer = await callTool(url, 'endless');
    for (let round = 1; round <= 2; round += 1) {
      answer = await callTool(url, 'endless', {
        requestState: answer.response.result.requestState,
        inputResponses: { [`elicitation-${round}`]: accept({ name: 'x' }) },
      });
    }
    expect(answer.response.error).toMatchObject({
      code: -32603,
      data: { reason: 'too_many_rounds' },
    });
  });
});

describe('the attached client', () => {
  // Rule responses-1.
  test('gets progress under its own token and logs at its own level, then the response', async () => {
    const { url, legacy } = await start({
      tools: {
        busy: async ({ extra, server }) => {
          const progressToken = extra._meta?.progressToken ?? 'none';
          for (const progress of [1, 2]) {
            await extra.sendNotification({
              method: 'notifications/progress',
              params: { progressToken, progress, total: 2 },
            });
          }
          for (const level of ['info', 'error'] as const) {
            await extra.sendNotification({
              method: 'notifications/message',
              params: { level, data: level },
            });
          }
          return server.getClientVersion()?.name ?? '';
        },
      },
    });
    const done = await callTool(
      url,
      'busy',
      {},
      { meta: { progressToken: 'mine', 'io.modelcontextprotocol/logLevel': 'error' } },
    );
    expect(done.streamed).toBe(true);
    expect(done.notifications).toEqual([
      {
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken: 'mine', progress: 1, total: 2 },
      },
      {
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken: 'mine', progress: 2, total: 2 },
      },
      {
        jsonrpc: '2.0',
        method: 'notifications/message',
        params: { level: 'error', data: 'error' },
      },
    ]);
    expect(text(done)).toBe('test');
    const call = await legacy.saw('tools/call');
    expect(call.body.params._meta.progressToken).not.toBe('mine');
    expect(legacy.methods()).toContain('logging/setLevel');
  });

  // Rule responses-1 (streamable-http, "Sending Messages" 6): The response is JSON if its outcome comes within
  // `edge.commitAfter` (5 s) and no notification comes before; it becomes an event stream with the first notification
  // for this client, or after that time.
  test('that asked for neither gets one JSON object', async () => {
    const { url } = await start({
      tools: {
        busy: async ({ extra }) => {
          const progressToken = extra._meta?.progressToken ?? 'none';
          await extra.sendNotification({
            method: 'notifications/progress',
            params: { progressToken, progress: 1 },
          });
          await extra.sendNotification({
            method: 'notifications/message',
            params: { level: 'error', data: 'x' },
          });
          return 'done';
        },
      },
    });
    const done = await callTool(url, 'busy');
    expect(done.streamed).toBe(false);
    expect(text(done)).toBe('done');
  });

  // Rule responses-3 (streamable-http, "Receiving Messages"): Event streams are sent with `Cache-Control:
  // no-cache, no-transform` and `X-Accel-Buffering: no`, and a silent one gets a comment every
  // `edge.keepAlive` (15 s).
  // Rule responses-1.
  test('gets a stream with keep-alive comments when the outcome takes its time', async () => {
    const clock = new ManualClock();
    const [began, finished] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
    const long = () => {
      began.resolve();
      return finished.promise;
    };
    const { url } = await start({ tools: { long } }, { clock });
    const call = callTool(url, 'long');
    await began.promise;
    clock.advance(5_000);
    clock.advance(30_000);
    finished.resolve('at last');
    const done = await call;
    expect(done.streamed).toBe(true);
    expect(done.headers.get('cache-control')).toContain('no-cache');
    expect(done.comments).toBe(2);
    expect(text(done)).toBe('at last');
  });

  // Rule validation-4.
  test('that takes JSON only gets JSON, however long it takes', async () => {
    const { url } = await start({
      tools: {
        busy: async ({ extra }) => {
          await extra.sendNotification({
            method: 'notifications/progress',
            params: { progressToken: extra._meta?.progressToken ?? 0, progress: 1 },
          });
          return 'done';
        },
      },
    });
    const done = await callTool(
      url,
      'busy',
      {},
      { meta: { progressToken: 1 }, headers: { accept: 'application/json' } },
    );
    expect(done.streamed).toBe(false);
    expect(text(done)).toBe('done');
  });
});

describe('error -32042', () => {
  /** A tool that fails until its URL was visited. */
  function payment() {
    const paid = { yet: false };
    const elicitation = {
      mode: 'url',
      message: 'Pay',
      url: 'https://pay.example/1',
      elicitationId: 'e1',
    };
    const pay: Tool = async () => {
      if (paid.yet) return 'paid';
      throw Object.assign(new Error('visit first'), {
        code: -32042,
        data: { elicitations: [elicitation] },
      });
    };
    return { paid, tools: { pay } };
  }

  // Rule url-errors-1 (2025-11-25 elicitation, "URL Elicitation Required Error"): The URLs are shown as an
  // `InputRequiredResult`, one question for each. When all are accepted the same request is made again, in
  // the same session where that still lives, with the credentials of the retry; a result or further questions
  // of the new call go on as those of any call.
  test('becomes URL input, and the call is made again when the server knows of the visit', async () => {
    const { paid, tools } = payment();
    const servers: ToolCall['server'][] = [];
    const pay: Tool = (call) => {
      servers.push(call.server);
      return tools.pay(call);
    };
    const { url, legacy } = await start({ tools: { pay } });
    const asked = await callTool(url, 'pay');
    expect(asked.response.result.inputRequests).toEqual({
      'elicitation-1': {
        method: 'elicitation/create',
        params: { mode: 'url', message: 'Pay', url: 'https://pay.example/1' },
      },
    });
    paid.yet = true;
    const method = 'notifications/elicitation/complete';
    await servers[0]?.notification({ method, params: { elicitationId: 'e1' } });
    const { requestState } = asked.response.result;
    const retry = { requestState, inputResponses: { 'elicitation-1': { action: 'accept' } } };
    expect(text(await callTool(url, 'pay', retry))).toBe('paid');
    const [first, again] = [await legacy.saw('tools/call'), await legacy.saw('tools/call', 2)];
    expect(again.session).toBe(first.session);
  });

  // Rule envelope-6 (authorization, "Token Requirements"): Credentials are those of the request at hand,
  // never stored ones: a retry that brings a fresh token sends that.
  // Rule url-errors-1.
  test('makes the call again with the credentials of the retry', async () => {
    const { paid, tools } = payment();
    const tokens: unknown[] = [];
    const pay: Tool = (call) => {
      tokens.push(call.extra.requestInfo?.headers['authorization']);
      return tools.pay(call);
    };
    const identity = { source: 'header', header: 'x-user' } as const;
    const options = { identity, questions: { urlVisitWaitMs: 0 } };
    const { url } = await start({ tools: { pay } }, options);
    const as = (token: string) => ({
      headers: { 'x-user': 'ada', authorization: `Bearer ${token}` },
    });
    const asked = await callTool(url, 'pay', {}, as('first'));
    paid.yet = true;
    const { requestState } = asked.response.result;
    const retry = { requestState, inputResponses: { 'elicitation-1': { action: 'accept' } } };
    expect(text(await callTool(url, 'pay', retry, as('refreshed')))).toBe('paid');
    expect(tokens).toEqual(['Bearer first', 'Bearer refreshed']);
  });

  // Rule url-errors-2.
  test('is tried again after a while when the server says nothing of the visit', async () => {
    const { paid, tools } = payment();
    const { url } = await start({ tools }, { questions: { urlVisitWaitMs: 20 } });
    const asked = await callTool(url, 'pay');
    paid.yet = true;
    const { requestState } = asked.response.result;
    const retry = { requestState, inputResponses: { 'elicitation-1': { action: 'accept' } } };
    expect(text(await callTool(url, 'pay', retry))).toBe('paid');
  });

  // Rule url-errors-4 (tools, "Error Handling"): One URL that is declined or cancelled ends the call, and it
  // is not made again. `tools/call` gets a result with `isError`, prompts and resources get error -32603 with
  // `data.reason` `elicitation_declined`.
  test('that the user declines ends the call as a failed tool', async () => {
    const { url, legacy } = await start({ tools: payment().tools });
    const asked = await callTool(url, 'pay');
    const done = await callTool(url, 'pay', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': { action: 'decline' } },
    });
    expect(done.response.result).toMatchObject({ resultType: 'complete', isError: true });
    expect(legacy.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
  });

  // Rule url-errors-5 (basic, "Error Codes"): A client that did not declare URL mode gets HTTP status 400 and
  // error -32021 that names the capability.
  test('without the URL capability names the capability', async () => {
    const { url } = await start({ tools: payment().tools });
    const failed = await callTool(url, 'pay', {}, { capabilities: { elicitation: {} } });
    expect(failed.status).toBe(400);
    expect(failed.response.error).toMatchObject({
      code: -32021,
      data: { requiredCapabilities: { elicitation: { url: {} } } },
    });
  });
});

describe('sessions', () => {
  // Rule expired-3 (2025-11-25 transports, "Session Management"): A new request that was refused so, before
  // the server acted on it, is sent once more in a new session. When that is refused too, the client gets
  // -32603 with `data.reason` `upstream_session_lost`.
  test('that the server forgot are replaced, and the call is made once', async () => {
    let runs = 0;
    const { url, legacy } = await start(
      { tools: { once: async () => `run ${(runs += 1)}` } },
      { sessions: { scope: 'shared' } },
    );
    expect(text(await callTool(url, 'once'))).toBe('run 1');
    await legacy.forget();
    expect(text(await callTool(url, 'once'))).toBe('run 2');
    expect(runs).toBe(2);
  });

  // Rule lost-2 (2025-11-25 transports, "Session Management"): A call whose session the server has forgotten, or
  // whose server was restarted, is lost, too.
  // Rule expired-4.
  test('of a parked call that the server forgot make the retry tell that the call is lost', async () => {
    const { url, legacy } = await start({ tools: greet });
    const asked = await callTool(url, 'greet');
    await legacy.forget();
    const lost = await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    expect(lost.response.result).toMatchObject({
      isError: true,
      _meta: { 'mrtr-gateway/reason': 'call_lost', 'mrtr-gateway/mayHaveActed': 'yes' },
    });
  });

  // Rule laws-2: When a call is over, nothing is left of it: no session, no connection, no stream, here or at
  // the server.
  // Rule sessions-4.
  test('are closed when the call ends, and nothing is left', async () => {
    const { url, legacy, gateway } = await start({ tools: greet }, { sessions: { scope: 'call' } });
    const asked = await callTool(url, 'greet');
    await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    await gateway.log.saw('call.ended');
    await turnsUntil(() => legacy.sessions === 0);
    expect(legacy.sessions).toBe(0);
  });
});
