/**
 * What the asking tools of the legacy conformance server are to ask, what they are told, and what they
 * must make of it.
 */
import { accept } from '../fixtures/clients/modern-client.ts';

export interface Question {
  /** What the server calls it; its key when the server's ids are names. */
  readonly name: string;
  /** The entry in `inputRequests`. */
  readonly request: { readonly method: string; readonly params: object };
  readonly answer: object;
}

export interface Conversation {
  /** Round by round, what is asked at once. */
  readonly rounds: readonly (readonly Question[])[];
  /** The text of the completed call. */
  readonly text: string;
}

/** By tool, for a client that declares every capability. */
export const CONVERSATIONS: Readonly<Record<string, Conversation>> = {
  test_input_required_result_elicitation: {
    rounds: [[askedForName(accept({ name: 'Ada' }))]],
    text: 'Hello, Ada!',
  },
  test_input_required_result_sampling: {
    rounds: [[sampled('capital_question', 'What is the capital of France?', 100, 'Paris')]],
    text: '{"type":"text","text":"Paris"}',
  },
  test_input_required_result_list_roots: {
    rounds: [[askedForRoots('file:///home/ada', 'file:///srv/data')]],
    text: 'file:///home/ada\nfile:///srv/data',
  },
  test_input_required_result_request_state: {
    rounds: [[askedToConfirm(true)]],
    text: 'state-ok: true',
  },
  test_input_required_result_tampered_state: {
    rounds: [[askedToConfirm(false)]],
    text: 'integrity-ok: false',
  },
  test_input_required_result_multiple_inputs: {
    rounds: [
      [
        askedForName(accept({ name: 'Ada' })),
        sampled('greeting', 'Generate a greeting', 50, 'Good day'),
        askedForRoots('file:///one', 'file:///two', 'file:///three'),
      ],
    ],
    text: 'Ada | {"type":"text","text":"Good day"} | 3',
  },
  test_input_required_result_multi_round: {
    rounds: [
      [elicited('step1', 'Step 1: What is your name?', 'name', 'string', accept({ name: 'Ada' }))],
      [
        elicited(
          'step2',
          'Step 2: What is your favorite color?',
          'color',
          'string',
          accept({ color: 'teal' }),
        ),
      ],
    ],
    text: 'Ada likes teal.',
  },
  test_input_required_result_capabilities: {
    rounds: [
      [
        elicited('elicit_input', 'A value?', 'value', 'string', accept({ value: 'v' })),
        sampled('sample_input', 'A sample', 50, 's'),
      ],
    ],
    text: '2 answers',
  },
  test_missing_capability: {
    rounds: [[sampled('needed_sample', 'A sample', 50, 'Sampled')]],
    text: '{"type":"text","text":"Sampled"}',
  },
  test_streaming_elicitation: {
    rounds: [[askedForName(accept({ name: 'Ada' }))]],
    text: 'Hello, Ada!',
  },
};

/** The question that most of the tools begin with. */
export function askedForName(answer: object): Question {
  return elicited('user_name', 'What is your name?', 'name', 'string', answer);
}

export function elicited(
  name: string,
  message: string,
  field: string,
  type: 'string' | 'boolean',
  answer: object,
): Question {
  const requestedSchema = {
    type: 'object',
    properties: { [field]: { type } },
    required: [field],
  };
  const params = { mode: 'form', message, requestedSchema };
  return { name, request: { method: 'elicitation/create', params }, answer };
}

function askedToConfirm(ok: boolean): Question {
  return elicited('confirm', 'Please confirm', 'ok', 'boolean', accept({ ok }));
}

export function sampled(name: string, text: string, maxTokens: number, reply: string): Question {
  const messages = [{ role: 'user', content: { type: 'text', text } }];
  return {
    name,
    request: { method: 'sampling/createMessage', params: { messages, maxTokens } },
    answer: { role: 'assistant', model: 'test', content: { type: 'text', text: reply } },
  };
}

function askedForRoots(...uris: string[]): Question {
  return {
    name: 'client_roots',
    request: { method: 'roots/list', params: {} },
    answer: { roots: uris.map((uri) => ({ uri })) },
  };
}
