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
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { accept, callTool, send, type Exchanged } from '../../fixtures/clients/modern-client.ts';
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
    'Invalid or expired requestState. The server may have acted on this call: check before calling again',
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

  test('end the call at once where the operator wants that', async () => {
    const { url } = await start(
      { tools: { careful: (call) => askName(call).catch(() => 'went on') } },
      { questions: { strictCapabilities: true } },
    );
    const failed = await callTool(url, 'careful', {}, { capabilities: {} });
    expect(failed.response.error).toMatchObject({ code: -32021 });
  });
});

describe('a retry that declares less than the request before', () => {
  const retryOf = (asked: Exchanged, capabilities: object) =>
    [{ requestState: asked.response.result.requestState }, { capabilities }] as const;

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

  test('is not given the next question in place of a lost answer', async () => {
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

  test('sent twice at once is answered twice alike', async () => {
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

describe('a pointer that is not good', () => {
  test('is refused alike outside, whatever is wrong, and told apart in the log', async () => {
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

  test('a round that is not answered in time is closed out and cancelled upstream', async () => {
    const clock = new ManualClock();
    const overrides = { clock, parking: { ttlMs: 60_000 } };
    const { url, legacy } = await start({ tools: greetDeaf }, overrides);
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
  });

  test('a human may take six minutes: the session is pinged and the answer still arrives', async () => {
    const clock = new ManualClock();
    const { url, legacy } = await start({ tools: greet }, { clock });
    const asked = await advanceUntil(clock, callTool(url, 'greet'));
    for (let minute = 1; minute <= 6; minute += 1) {
      clock.advance(60_000);
      await legacy.saw('ping', minute);
      await settled();
    }
    const done = await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    expect(text(done)).toBe('Hello Ada');
  });
});

describe('a server with little patience', () => {
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

  test('that counts anew with each progress is told every 15 seconds that somebody still thinks', async () => {
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
    await settled();
    expect(legacy.methods().filter((name) => name === 'notifications/progress')).toHaveLength(5);
  });
});

/** Lets our own timers fire while the sockets do their real work, until the promise is settled. */
async function advanceUntil<T>(clock: ManualClock, promise: Promise<T>): Promise<T> {
  let done = false;
  const watched = promise.finally(() => {
    done = true;
  });
  while (!done) {
    await settled();
    clock.advance(10);
  }
  return watched;
}

/** One turn of the event loop with its I/O. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setTimeout(resolve, 5)));
}

describe('limits', () => {
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

  test('that leaves cancels the call upstream, and everything is freed', async () => {
    const { url, legacy, gateway } = await start({
      tools: {
        long: ({ extra }) =>
          new Promise((_resolve, reject) => {
            extra.signal.addEventListener('abort', () => reject(new Error('aborted')));
          }),
      },
    });
    const leaving = new AbortController();
    const call = callTool(url, 'long', {}, { signal: leaving.signal });
    await legacy.saw('tools/call');
    leaving.abort();
    await expect(call).rejects.toThrow();
    const cancelled = await legacy.saw('notifications/cancelled');
    const sent = await legacy.saw('tools/call');
    expect(cancelled.body.params.requestId).toBe(sent.body.id);
    await gateway.log.saw('call.ended');
    expect(gateway.log.named('call.ended')[0]).toMatchObject({ end: 'cancelled' });
  });

  test('gets a stream with keep-alive comments when the outcome takes its time', async () => {
    const clock = new ManualClock();
    let finish: (text: string) => void = () => {};
    const { url, legacy } = await start(
      {
        tools: {
          long: () =>
            new Promise((resolve) => {
              finish = resolve;
            }),
        },
      },
      { clock },
    );
    const call = callTool(url, 'long');
    await legacy.saw('tools/call');
    await settled();
    clock.advance(5_000);
    await settled();
    clock.advance(30_000);
    await settled();
    finish('at last');
    const done = await call;
    expect(done.streamed).toBe(true);
    expect(done.headers.get('cache-control')).toContain('no-cache');
    expect(done.comments).toBe(2);
    expect(text(done)).toBe('at last');
  });

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

describe('questions beside the call’s own stream', () => {
  for (const transport of ['streamable-http', 'http-sse'] as const) {
    test(`reach the right call over ${transport}, twenty at once`, async () => {
      const { url, gateway } = await start({
        transport,
        tools: {
          // Without relation: over Streamable HTTP this comes on the standalone GET stream.
          ask: async ({ server, args }) => {
            const answer = await server.elicitInput({
              message: `Who is ${String(args['n'])}?`,
              requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
            });
            return `${String(args['n'])} is ${String(answer.content?.['name'])}`;
          },
        },
      });
      const calls = Array.from({ length: 20 }, async (_, n) => {
        const asked = await callTool(url, 'ask', { arguments: { n } });
        const { inputRequests, requestState } = asked.response.result;
        expect(inputRequests['elicitation-1'].params.message).toBe(`Who is ${n}?`);
        const done = await callTool(url, 'ask', {
          arguments: { n },
          requestState,
          inputResponses: { 'elicitation-1': accept({ name: `person ${n}` }) },
        });
        expect(text(done)).toBe(`${n} is person ${n}`);
      });
      await Promise.all(calls);
      expect(gateway.log.named('call.ended')).toHaveLength(20);
    });
  }
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

  test('becomes URL input, and the call is made anew when the server knows of the visit', async () => {
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

  test('makes the call anew with the credentials of the request that came back', async () => {
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

  test('is tried again after a while when the server says nothing of the visit', async () => {
    const { paid, tools } = payment();
    const { url } = await start({ tools }, { questions: { urlVisitWaitMs: 20 } });
    const asked = await callTool(url, 'pay');
    paid.yet = true;
    const { requestState } = asked.response.result;
    const retry = { requestState, inputResponses: { 'elicitation-1': { action: 'accept' } } };
    expect(text(await callTool(url, 'pay', retry))).toBe('paid');
  });

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
  test('that the server forgot are made anew, and the call is made once', async () => {
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

  test('are closed when the call ends, and nothing is left', async () => {
    const { url, legacy, gateway } = await start({ tools: greet });
    const asked = await callTool(url, 'greet');
    await callTool(url, 'greet', {
      requestState: asked.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    await gateway.log.saw('call.ended');
    while (legacy.sessions > 0) await settled();
    expect(legacy.sessions).toBe(0);
  });
});
