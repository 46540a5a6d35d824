/** `elicitation/create` as 2025-06-18 introduced it and as 2025-11-25 extended it, and URLs by error. */
import { describe, expect, test } from 'vitest';
import { startTestGateway } from '../fixtures/gateways/gateway.ts';
import { accept, callTool } from '../fixtures/clients/modern-client.ts';
import {
  askedAndTold,
  inputRequired,
  revisionStage,
  textOf,
} from '../fixtures/revisions/testbed.ts';
import { before, since, streamsOf, TITLE } from '../fixtures/revisions/table.ts';
import { wireServer } from '../fixtures/revisions/wire.ts';
import { takeViolations } from '../fixtures/wire/schema-check.ts';

const form = (properties: object, more: object = {}, required?: string[]) => ({
  method: 'elicitation/create',
  params: {
    message: 'About you',
    requestedSchema: {
      type: 'object',
      properties,
      ...(required === undefined ? {} : { required }),
    },
    ...more,
  },
});
const shown = ({ method, params }: ReturnType<typeof form>) => ({
  method,
  params: { ...params, mode: 'form' },
});

/** Every kind of property that 2025-06-18 has. */
const OLD_FORM = form(
  {
    name: { type: 'string', title: 'Name', description: 'In full', minLength: 1, maxLength: 50 },
    mail: { type: 'string', format: 'email' },
    site: { type: 'string', format: 'uri' },
    born: { type: 'string', format: 'date' },
    seen: { type: 'string', format: 'date-time' },
    age: { type: 'integer', minimum: 0, maximum: 150 },
    height: { type: 'number', title: 'Height', minimum: 0.5 },
    agrees: { type: 'boolean', default: false },
    colour: { type: 'string', enum: ['r', 'g'], enumNames: ['Red', 'Green'] },
    size: { type: 'string', enum: ['s', 'm'] },
  },
  {},
  ['name', 'age'],
);
const OLD_CONTENT = {
  name: 'Ada',
  mail: 'ada@example.org',
  site: 'https://ada.example',
  born: '1815-12-10',
  seen: '2025-01-01T00:00:00Z',
  age: 36,
  height: 1.65,
  agrees: true,
  colour: 'g',
  size: 's',
};

describe.each(since('2025-06-18'))(TITLE, (shape) => {
  const stage = revisionStage(shape);
  const streams = streamsOf(shape);
  const [on = 'own'] = streams;

  // Rule forms-1.
  test.each(streams)(
    'a form on the %s stream comes with all its fields, and so do its answers',
    async (stream) => {
      const asking = { question: OLD_FORM, answer: accept(OLD_CONTENT) };
      const { requests, told } = await askedAndTold(stage.url, stream, [[asking]]);
      expect(requests).toEqual([[shown(OLD_FORM)]]);
      expect(told).toEqual([[{ result: accept(OLD_CONTENT) }]]);
    },
  );

  // Rule answers-1.
  test.each(['decline', 'cancel'])(
    'the server is told that the user chose to %s',
    async (action) => {
      const asking = { question: OLD_FORM, answer: { action } };
      const { told } = await askedAndTold(stage.url, on, [[asking]]);
      expect(told).toEqual([[{ result: { action } }]]);
    },
  );

  // Rule questions-2.
  test.each(streams)(
    'three forms at once on the %s stream, and two more, each get their own answer',
    async (stream) => {
      const ask = (name: string) => ({
        question: form({ [name]: { type: 'string' } }),
        answer: accept({ [name]: `of ${name}` }),
      });
      const rounds = [[ask('a'), ask('b'), ask('c')], [ask('d')], [ask('e')]];
      const { requests, told } = await askedAndTold(stage.url, stream, rounds);
      expect(requests).toEqual(rounds.map((round) => round.map(({ question }) => shown(question))));
      expect(told).toEqual(rounds.map((round) => round.map(({ answer }) => ({ result: answer }))));
    },
  );

  // Rule undeclared-1.
  test('a client that cannot fill in forms is not asked', async () => {
    const args = { arguments: { rounds: [[OLD_FORM]], on } };
    const done = await callTool(stage.url, 'ask', args, { capabilities: { roots: {} } });
    expect(JSON.parse(textOf(done))).toEqual([[{ error: -32601 }]]);
  });

  test('a client that visits URLs only is known as that, where the revision can say it', async () => {
    const capabilities = { elicitation: { url: {} } };
    await callTool(stage.url, 'echo', {}, { capabilities });
    const [initialize] = stage.server.all('initialize');
    // Until 2025-06-18 the mere presence of the capability means forms.
    const declared = shape.revision === '2025-06-18' ? {} : capabilities;
    expect(initialize?.body.params.capabilities).toEqual(declared);
  });
});

describe.each(since('2025-11-25'))(TITLE, (shape) => {
  const stage = revisionStage(shape);
  const streams = streamsOf(shape);
  const [on = 'own'] = streams;
  const titled = [
    { const: 'r', title: 'Red' },
    { const: 'g', title: 'Green' },
  ];

  // Rule forms-1.
  test('a form has titled choices, lists of choices and defaults of every type', async () => {
    const question = form(
      {
        one: { type: 'string', enum: ['a', 'b'], default: 'b' },
        oneTitled: { type: 'string', oneOf: titled, default: 'g' },
        some: {
          type: 'array',
          title: 'Some',
          items: { type: 'string', enum: ['a', 'b'] },
          minItems: 1,
          maxItems: 2,
          default: ['a'],
        },
        someTitled: { type: 'array', items: { anyOf: titled }, default: [] },
        old: { type: 'string', enum: ['r'], enumNames: ['Red'], default: 'r' },
        text: { type: 'string', default: 'none' },
        number: { type: 'number', default: 1.5 },
        integer: { type: 'integer', default: 0 },
      },
      { mode: 'form' },
    );
    const content = {
      one: 'a',
      oneTitled: 'r',
      some: ['a', 'b'],
      someTitled: [],
      old: 'r',
      text: '',
      number: -0.5,
      integer: 7,
    };
    const asking = { question, answer: accept(content) };
    const { requests, told } = await askedAndTold(stage.url, on, [[asking]]);
    expect(requests).toEqual([[question]]);
    expect(told).toEqual([[{ result: accept(content) }]]);
  });

  const VISIT = {
    mode: 'url',
    message: 'Sign in',
    url: 'https://sign-in.example/?a=1#b',
    elicitationId: 'visit-1',
  };
  const { elicitationId: _ofTheServer, ...SHOWN_VISIT } = VISIT;
  const SHOWN = { method: 'elicitation/create', params: SHOWN_VISIT };

  // Rules urls-1, urls-4.
  test.each(streams)(
    'a URL on the %s stream is shown as it is, without the id of the server',
    async (stream) => {
      const question = { method: 'elicitation/create', params: VISIT };
      const rounds = ['accept', 'decline', 'cancel'].map((action) => [
        { question, answer: { action } },
      ]);
      const { requests, told } = await askedAndTold(stage.url, stream, rounds);
      expect(requests).toEqual([[SHOWN], [SHOWN], [SHOWN]]);
      expect(told).toEqual(rounds.map(([asking]) => [{ result: asking?.answer }]));
    },
  );

  // Rule undeclared-1.
  test.each([
    { declares: 'forms only', elicitation: { form: {} }, code: -32602 },
    { declares: 'no elicitation', elicitation: undefined, code: -32601 },
  ])('a client that declares $declares is not sent to a URL', async ({ elicitation, code }) => {
    const rounds = [[{ method: 'elicitation/create', params: VISIT }]];
    const capabilities = elicitation === undefined ? {} : { elicitation };
    const done = await callTool(stage.url, 'ask', { arguments: { rounds, on } }, { capabilities });
    expect(JSON.parse(textOf(done))).toEqual([[{ error: code }]]);
  });

  describe('a call that fails with -32042', () => {
    const other = {
      ...VISIT,
      message: 'Pay',
      url: 'https://pay.example/',
      elicitationId: 'visit-2',
    };
    const params = { arguments: { elicitations: [VISIT, other] } };

    // Rule url-errors-2 (2025-11-25 elicitation, "Completion Notifications for URL Mode Elicitation"): Before that
    // the gateway waits up to 10 s for `notifications/elicitation/complete`. The client never gets it.
    test('is made again once the server reports that all its URLs were visited', async () => {
      stage.server.visit(false);
      const { inputRequests, requestState } = inputRequired(
        await callTool(stage.url, 'demand', params),
      );
      expect(Object.values(inputRequests)).toEqual([
        SHOWN,
        {
          method: 'elicitation/create',
          params: { mode: 'url', message: 'Pay', url: 'https://pay.example/' },
        },
      ]);
      const keys = Object.keys(inputRequests);
      const inputResponses = Object.fromEntries(keys.map((key) => [key, { action: 'accept' }]));
      stage.server.visit(true);
      for (const { elicitationId } of [VISIT, other]) {
        const complete = {
          method: 'notifications/elicitation/complete',
          params: { elicitationId },
        };
        await stage.server.announce(complete);
      }
      const retried = await callTool(stage.url, 'demand', {
        ...params,
        requestState,
        inputResponses,
      });
      expect(textOf(retried)).toBe('visited');
      const calls = stage.server.all('tools/call').map(({ body }) => body.params);
      expect(calls).toHaveLength(2);
      expect(calls[1]).toMatchObject({ name: 'demand', arguments: params.arguments });
    });

    // Rule url-errors-5.
    test('is refused to a client that cannot visit URLs, with what that takes', async () => {
      stage.server.visit(false);
      const capabilities = { elicitation: { form: {} } };
      const { status, response } = await callTool(stage.url, 'demand', params, { capabilities });
      expect(status).toBe(400);
      expect(response.error).toMatchObject({
        code: -32021,
        data: { requiredCapabilities: { elicitation: { url: {} } } },
      });
    });
  });
});

describe.each(before('2025-06-18'))(TITLE, (shape) => {
  // Rule forms-9: A server of a revision without elicitation that sends a form gets an answer.
  test('a server that nevertheless asks with a form, as SDKs do, is answered', async () => {
    const question = form({ name: { type: 'string' } });
    const server = await wireServer(shape, {
      request: async ({ body }, say) => {
        const stream = shape.answers === 'JSON' ? say.standalone : say.own;
        stream({ jsonrpc: '2.0', id: 'form', ...question });
        const told = await server.saw((received) => received.body?.id === 'form');
        const text = JSON.stringify(told.body.result);
        say.own({ jsonrpc: '2.0', id: body.id, result: { content: [{ type: 'text', text }] } });
      },
    });
    const gateway = await startTestGateway(server.url, { transport: shape.transport });
    try {
      const { inputRequests, requestState } = inputRequired(await callTool(gateway.url, 'any'));
      expect(inputRequests).toEqual({ form: shown(question) });
      const inputResponses = { form: accept({ name: 'Ada' }) };
      const done = await callTool(gateway.url, 'any', { requestState, inputResponses });
      expect(JSON.parse(textOf(done))).toEqual(accept({ name: 'Ada' }));
      // By its schema the revision has no such question; the server that asks it knows better.
      expect(takeViolations()).toEqual([
        expect.stringContaining('"elicitation/create", which does not exist'),
      ]);
    } finally {
      await gateway.close();
      await server.stop();
    }
  });
});
