import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Questions } from '../../../../src/calls/call/questions.ts';
import {
  EMPTY_PROFILE,
  type ClientProfile,
} from '../../../../src/protocol/translate/client-profile.ts';
import { inputKey, serverRequestId } from '../../../../src/protocol/ids.ts';
import type { JsonObject } from '../../../../src/protocol/json.ts';
import { arbitraryJsonObject } from '../../../fixtures/arbitrary/json.ts';

const ALL: ClientProfile = {
  elicitationForm: true,
  elicitationUrl: true,
  sampling: true,
  samplingTools: true,
  samplingContext: true,
  roots: true,
  extensions: {},
};
const OPTIONS = { names: [], revealsSession: () => false };
const FORM = {
  message: 'm',
  requestedSchema: { type: 'object', properties: { n: { enum: [1, 2] } } },
};
const URL_MODE = { mode: 'url', message: 'm', url: 'https://a.example', elicitationId: 'e' };
const SAMPLING = { messages: [], maxTokens: 1 };

function ask(
  questions: Questions,
  id: string | number,
  method: string,
  params: JsonObject = {},
  profile: ClientProfile = ALL,
) {
  return questions.ask(serverRequestId(id), method, params, profile, '2025-11-25');
}

function open(questions: Questions, id: string | number, method: string, params?: JsonObject) {
  const asked = ask(questions, id, method, params);
  if (asked.type !== 'open') throw new Error(asked.error.message);
  return asked.request;
}

/** Roots, a form and a sampling request, asked in this order. */
function three() {
  const questions = new Questions(OPTIONS);
  const requests = [
    open(questions, 0, 'roots/list'),
    open(questions, 'q?', 'elicitation/create', FORM),
    open(questions, 5, 'sampling/createMessage', SAMPLING),
  ];
  return { questions, requests, keys: requests.map(({ key }) => key) };
}

const ROOTS = { roots: [{ uri: 'file:///a' }] };

describe('asking', () => {
  // Rule shown-3.
  test('shows each question under its own key, in the order of asking', () => {
    const { questions, keys } = three();
    expect(
      Object.entries(questions.inputRequests(keys)).map(([key, { method }]) => [key, method]),
    ).toEqual([
      ['roots-1', 'roots/list'],
      ['elicitation-1', 'elicitation/create'],
      ['sampling-1', 'sampling/createMessage'],
    ]);
  });

  // Rule questions-7 (2025-11-25 basic, "Requests"): A question that comes again within 1 s, on a resumed
  // stream, or up to 1 s after a standalone stream was opened is asked once.
  test('keeps the server’s id with its type, zero included', () => {
    expect(three().requests.map(({ id }) => id)).toEqual([0, 'q?', 5]);
  });

  // Rule undeclared-2.
  test('refuses what the client did not declare, and notes all that it would have taken', () => {
    const questions = new Questions(OPTIONS);
    expect(questions.refusedCapabilities).toBeNull();
    for (const [method, params] of [
      ['elicitation/create', FORM],
      ['elicitation/create', URL_MODE],
      ['sampling/createMessage', SAMPLING],
      ['roots/list', {}],
    ] as const) {
      expect(ask(questions, 1, method, params, EMPTY_PROFILE)).toMatchObject({
        type: 'refused',
        reason: 'capability_not_declared',
      });
    }
    expect(questions.refusedCapabilities).toEqual({
      elicitation: { form: {}, url: {} },
      sampling: {},
      roots: {},
    });
  });

  // Rule undeclared-2.
  test('notes nothing when a question is refused for itself', () => {
    const questions = new Questions(OPTIONS);
    expect(ask(questions, 1, 'x/unknown')).toMatchObject({ type: 'refused' });
    expect(questions.refusedCapabilities).toBeNull();
  });

  test('spends no key on a question that is refused', () => {
    const questions = new Questions(OPTIONS);
    ask(questions, 1, 'roots/list', {}, EMPTY_PROFILE);
    expect(open(questions, 2, 'roots/list').key).toBe('roots-1');
  });
});

describe('the answers of a retry', () => {
  test('go to the questions that they name, in the terms of the server', () => {
    const { questions, requests } = three();
    const read = questions.read(requests, {
      'elicitation-1': { action: 'accept', content: { n: '2' } },
      'roots-1': ROOTS,
    });
    if (read.type !== 'read') throw new Error(read.problem);
    expect([...read.replies]).toEqual([
      ['roots-1', { result: ROOTS }],
      ['elicitation-1', { result: { action: 'accept', content: { n: 2 } } }],
    ]);
  });

  // Rule answers-3.
  test('are ignored for keys that nobody asked for, or that are not open (MRTR, "Error Handling")', () => {
    const { questions, requests } = three();
    const answers = { 'roots-1': ROOTS, 'roots-9': 5, 'sampling-1': 'nonsense', constructor: {} };
    const read = questions.read(requests.slice(0, 1), answers);
    expect(read).toMatchObject({ type: 'read', declined: false });
    if (read.type === 'read') expect([...read.replies.keys()]).toEqual(['roots-1']);
  });

  test('may be none at all', () => {
    const { questions, requests } = three();
    for (const answers of [null, {}]) {
      const read = questions.read(requests, answers);
      expect(read).toEqual({ type: 'read', replies: new Map(), declined: false });
    }
  });

  // Rule answers-6.
  test('go nowhere at all when one of them cannot be one; it is named', () => {
    const { questions, requests } = three();
    const read = questions.read(requests, { 'roots-1': ROOTS, 'sampling-1': { role: 'x' } });
    expect(read).toMatchObject({ type: 'ill-formed', key: 'sampling-1' });
  });

  test('that decline a question of the running call are for the server to judge', () => {
    const { questions, requests } = three();
    const read = questions.read(requests, { 'elicitation-1': { action: 'decline' } });
    expect(read).toMatchObject({ type: 'read', declined: false });
  });

  // Rule answers-6.
  test('of any shape are read or named, and nothing is thrown', () => {
    fc.assert(
      fc.property(
        fc.record(
          {
            'roots-1': arbitraryJsonObject,
            'elicitation-1': arbitraryJsonObject,
            'sampling-1': arbitraryJsonObject,
          },
          { requiredKeys: [] },
        ),
        (answers) => {
          const { questions, requests } = three();
          const read = questions.read(requests, answers as JsonObject);
          expect(['read', 'ill-formed']).toContain(read.type);
        },
      ),
    );
  });
});

describe('URLs that ended a call', () => {
  const elicitations = [
    { message: 'm', url: 'https://a.example', elicitationId: 'e1' },
    { message: 'n', url: 'https://b.example', elicitationId: 'e2' },
  ];

  test('are shown as input requests that have no id upstream, and no elicitation id', () => {
    const questions = new Questions(OPTIONS);
    const requests = questions.askUrls(elicitations, ALL, '2025-11-25');
    expect(requests).toEqual([
      { key: 'elicitation-1', id: null },
      { key: 'elicitation-2', id: null },
    ]);
    const keys = requests.map(({ key }) => key);
    expect(questions.inputRequests(keys)['elicitation-1']).toEqual({
      method: 'elicitation/create',
      params: { mode: 'url', message: 'm', url: 'https://a.example' },
    });
    expect(questions.visiting).toEqual(['e1', 'e2']);
  });

  test('that are unsafe are not shown', () => {
    const unsafe = [{ message: 'm', url: 'javascript:x', elicitationId: 'e' }];
    expect(new Questions(OPTIONS).askUrls(unsafe, ALL, '2025-11-25')).toEqual([]);
  });

  // Rule url-errors-4.
  test.each(['decline', 'cancel'])(
    'and are answered with %s end the call as declined',
    (action) => {
      const questions = new Questions(OPTIONS);
      const requests = questions.askUrls(elicitations, ALL, '2025-11-25');
      const answers = { 'elicitation-1': { action: 'accept' }, 'elicitation-2': { action } };
      expect(questions.read(requests, answers)).toMatchObject({ type: 'read', declined: true });
    },
  );

  test('and are all accepted let the call be made again', () => {
    const questions = new Questions(OPTIONS);
    const requests = questions.askUrls(elicitations, ALL, '2025-11-25');
    const accept = { action: 'accept' };
    const answers = { 'elicitation-1': accept, 'elicitation-2': accept };
    expect(questions.read(requests, answers)).toMatchObject({ type: 'read', declined: false });
  });
});

describe('a retry that declares less than the first request did', () => {
  // Rule undeclared-4.
  test('does not cover the questions that it could not be asked (MRTR, server requirement 7)', () => {
    const { questions, keys } = three();
    expect(questions.uncovered(keys, ALL)).toEqual([]);
    expect(questions.uncovered(keys, { ...ALL, sampling: false })).toEqual(['sampling-1']);
    expect(questions.uncovered(keys, EMPTY_PROFILE)).toEqual(keys);
  });

  // Rule sampling-3.
  test('does not cover sampling with tools when it declares sampling alone (sampling, "Capabilities")', () => {
    const questions = new Questions(OPTIONS);
    const { key: plain } = open(questions, 1, 'sampling/createMessage', SAMPLING);
    const withTools = { ...SAMPLING, tools: [] };
    const { key } = open(questions, 2, 'sampling/createMessage', withTools);
    expect(questions.uncovered([plain, key], { ...ALL, samplingTools: false })).toEqual([key]);
    expect(questions.requiredFor([plain, key])).toEqual({ sampling: { tools: {} } });
    const other = new Questions(OPTIONS);
    other.restore(questions.sealed([key]), questions.keysGiven);
    expect(other.uncovered([key], { ...ALL, samplingTools: false })).toEqual([key]);
  });

  // Rule openai-3.
  test("does not cover a form of OpenAI's extension when it declares plain forms alone", () => {
    const shows = { ...ALL, extensions: { 'openai/elicitation': { form: {} } } };
    const questions = new Questions(OPTIONS);
    const params = { message: 'm', requestedSchema: { type: 'object' } };
    const asked = questions.ask(
      serverRequestId(1),
      'openai/elicitation/create',
      params,
      shows,
      '2025-11-25',
    );
    if (asked.type === 'refused') throw new Error(asked.reason);
    const { key } = asked.request;
    expect(key).toBe('elicitation-1');
    for (const at of [questions, new Questions(OPTIONS)]) {
      if (at !== questions) at.restore(questions.sealed([key]), questions.keysGiven);
      expect(at.uncovered([key], shows)).toEqual([]);
      expect(at.uncovered([key], ALL)).toEqual([key]);
      expect(at.requiredFor([key])).toEqual({
        elicitation: { form: {} },
        extensions: { 'openai/elicitation': { form: {} } },
      });
    }
  });

  // Rule undeclared-4.
  test('is told what all of them together take', () => {
    const { questions, keys } = three();
    const url = open(questions, 9, 'elicitation/create', URL_MODE).key;
    expect(questions.requiredFor([...keys, url])).toEqual({
      roots: {},
      elicitation: { form: {}, url: {} },
      sampling: {},
    });
    expect(questions.requiredFor([])).toEqual({});
  });
});

describe('another replica', () => {
  // Rule forms-7.
  test('shows the same questions and sends back the same answers', () => {
    const { questions, requests, keys } = three();
    const other = new Questions(OPTIONS);
    other.restore(questions.sealed(keys), questions.keysGiven);
    expect(other.inputRequests(keys)).toEqual(questions.inputRequests(keys));
    for (const key of keys) {
      expect(other.digestOf(key)).toBe(questions.digestOf(key));
      expect(other.kindOf(key)).toBe(questions.kindOf(key));
    }
    const answers = {
      'roots-1': ROOTS,
      'elicitation-1': { action: 'accept', content: { n: '1' } },
      'sampling-1': { role: 'user', model: 'm', content: { type: 'text', text: 't' } },
    };
    expect(other.read(requests, answers)).toEqual(questions.read(requests, answers));
  });

  test('gives no key again that the first one gave', () => {
    const { questions, keys } = three();
    const other = new Questions(OPTIONS);
    other.restore(questions.sealed(keys), questions.keysGiven);
    expect(open(other, 1, 'roots/list').key).toBe('roots-2');
  });

  // Rule shown-5.
  test('gives no key again that was answered in an earlier round, nor a name of the operator’s out of turn', () => {
    const named = { ...OPTIONS, names: ['who', 'why', 'when'] };
    for (const [options, expected] of [
      [OPTIONS, ['roots-3', 'sampling-1']],
      [named, ['when', 'sampling-1']],
    ] as const) {
      const questions = new Questions(options);
      open(questions, 1, 'roots/list');
      const { key } = open(questions, 2, 'roots/list');
      const other = new Questions(options);
      other.restore(questions.sealed([key]), questions.keysGiven);
      const next = [
        open(other, 3, 'roots/list'),
        open(other, 4, 'sampling/createMessage', SAMPLING),
      ];
      expect(next.map((request) => request.key)).toEqual(expected);
    }
  });
});

describe('a question that the server took back', () => {
  test('is forgotten when no client has seen it', () => {
    const questions = new Questions(OPTIONS);
    const { key } = open(questions, 1, 'roots/list');
    questions.withdraw(serverRequestId(1));
    expect(() => questions.kindOf(key)).toThrow(key);
    expect(open(questions, 2, 'roots/list').key, 'its key is not given again').toBe('roots-2');
  });

  test('is known as long as clients may come back with it', () => {
    const questions = new Questions(OPTIONS);
    const { key } = open(questions, 1, 'roots/list');
    questions.inputRequests([key]);
    questions.withdraw(serverRequestId(1));
    expect(questions.kindOf(key)).toBe('roots');
  });
});

test('a key that no question has is a defect, not an answer', () => {
  expect(() => new Questions(OPTIONS).kindOf(inputKey('none'))).toThrow(/none/);
});
