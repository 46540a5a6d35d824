/** What a client did, read from the messages between it and the gateway. */
import { isJsonObject, objectMember, type JsonObject } from '../../src/protocol/json.ts';
import { TEXT } from './model.ts';
import type { Recorded } from './recorder.ts';

const OPENINGS = ['server/discover', 'initialize'];
const ENVELOPE = 'io.modelcontextprotocol/';

export interface Opening {
  readonly method: string;
  /** The revision that the client names. */
  readonly revision: string;
}

/** How a call ended. */
export type Answer =
  | { readonly kind: 'never called' }
  | { readonly kind: 'right' }
  | { readonly kind: 'no answer' }
  | { readonly kind: 'wrong' | 'error'; readonly text: string };

export type Question =
  /** The client never called the tool. */
  | { readonly kind: 'never called' }
  /** It does not say that it can be asked, so nothing asked it. */
  | { readonly kind: 'not declared'; readonly text: string }
  /** `accept`, `decline` or `cancel`, and whether the server got it and the client its result. */
  | { readonly kind: 'answered'; readonly action: string; readonly result: Answer }
  /** It was asked and answered with an error, or not at all. */
  | { readonly kind: 'shown nothing'; readonly text: string }
  | { readonly kind: 'failed'; readonly text: string };

export interface Behaviour {
  /** In its order: a client that is refused can try something else. */
  readonly openings: readonly Opening[];
  readonly client: { readonly name: string; readonly version: string } | null;
  /** Of what servers can ask: `elicitation`, `sampling`, `roots`. */
  readonly declares: readonly string[];
  /** How many tools it was told of. */
  readonly tools: number | null;
  readonly echo: Answer;
  readonly question: Question;
  /** `ended`: with a `DELETE`, as a client that has no more use for it should (2025-11-25, transports, "Session Management"). */
  readonly session: 'none' | 'left open' | 'ended';
  /** The last refusal, if it got no tools. */
  readonly refusal: string | null;
}

interface Exchange {
  readonly request: JsonObject;
  readonly response: JsonObject | undefined;
}

/** @returns what the whole record of one client says */
export function readBehaviour(record: readonly Recorded[]): Behaviour {
  const exchanges = exchangesOf(record);
  const of = (method: string) => exchanges.filter(({ request }) => request['method'] === method);
  const begun = exchanges.filter(({ request }) => OPENINGS.includes(String(request['method'])));
  const openings = begun.map(({ request }) => ({
    method: String(request['method']),
    revision: revisionOf(request),
  }));
  const lists = of('tools/list')
    .map(({ response }) => objectMember(response ?? {}, 'result')?.['tools'])
    .filter(Array.isArray);
  // Some clients try a server with another client first.
  const known = exchanges
    .map(({ request }) => identityOf(request))
    .findLast(({ client }) => client !== null);
  return {
    openings: openings.filter(
      ({ method, revision }, at) =>
        at ===
        openings.findIndex((other) => other.method === method && other.revision === revision),
    ),
    client: known?.client ?? null,
    declares: known?.declares ?? [],
    tools: lists.at(-1)?.length ?? null,
    echo: echoOf(of('tools/call').filter(({ request }) => toolOf(request) === 'echo')),
    question: questionOf(
      of('tools/call').filter(({ request }) => toolOf(request) === 'ask'),
      record,
    ),
    session: sessionOf(record, of('initialize')),
    refusal: lists.length > 0 ? null : refusalOf(record, begun),
  };
}

/** Requests of the client with their responses. Ids are unique in a session, and a retry has a new one. */
function exchangesOf(record: readonly Recorded[]): Exchange[] {
  return record.flatMap(({ from, message }, at) => {
    if (from !== 'client' || typeof message?.['method'] !== 'string') return [];
    const response = record
      .slice(at)
      .find(
        ({ from, message: later }) =>
          from === 'gateway' &&
          later !== null &&
          later['method'] === undefined &&
          later['id'] !== undefined &&
          later['id'] === message['id'],
      )?.message;
    return [{ request: message, response: response ?? undefined }];
  });
}

function echoOf(calls: readonly Exchange[]): Answer {
  const last = calls.at(-1);
  return last === undefined ? { kind: 'never called' } : answerOf(last, `echo: ${TEXT}`);
}

function answerOf({ response }: Exchange, expected: string): Answer {
  if (response === undefined) return { kind: 'no answer' };
  const text = textOf(response);
  const isError =
    response['error'] !== undefined || objectMember(response, 'result')?.['isError'] === true;
  if (isError) return { kind: 'error', text };
  return text === expected ? { kind: 'right' } : { kind: 'wrong', text };
}

function questionOf(calls: readonly Exchange[], record: readonly Recorded[]): Question {
  const last = calls.at(-1);
  if (last === undefined) return { kind: 'never called' };
  const answer = modernAnswer(calls) ?? legacyAnswer(record);
  if (answer === 'none')
    return {
      kind: 'shown nothing',
      text: last.response === undefined ? '' : textOf(last.response),
    };
  if (answer !== undefined) {
    if (answer['error'] !== undefined) return { kind: 'shown nothing', text: textOf(answer) };
    const content = objectMember(answer, 'content')?.['name'];
    const action = String(answer['action']);
    const expected = `${action}: ${typeof content === 'string' ? content : 'nothing'}`;
    return { kind: 'answered', action, result: answerOf(last, expected) };
  }
  if (last.response === undefined) return { kind: 'failed', text: 'no answer' };
  const text = textOf(last.response);
  const code = objectMember(last.response, 'error')?.['code'];
  if (code === MISSING_CAPABILITY || /does not support|cannot show/i.test(text))
    return { kind: 'not declared', text };
  return { kind: 'failed', text };
}

/** "Missing required client capability" (2026-07-28, errors). */
const MISSING_CAPABILITY = -32021;

/** What a client said in a retry to the question in a result; `none` if it asked no second time. */
function modernAnswer(calls: readonly Exchange[]): JsonObject | 'none' | undefined {
  const asked = calls.some(
    ({ response }) => objectMember(response ?? {}, 'result')?.['resultType'] === 'input_required',
  );
  if (!asked) return undefined;
  const answers = calls
    .map(({ request }) => objectMember(objectMember(request, 'params') ?? {}, 'inputResponses'))
    .filter((responses) => responses !== undefined);
  const [first] = Object.values(answers.at(-1) ?? {});
  return isJsonObject(first) ? first : 'none';
}

/** What a client said to a question of the server that is a request. */
function legacyAnswer(record: readonly Recorded[]): JsonObject | 'none' | undefined {
  const question = record.find(
    ({ from, message }) => from === 'gateway' && message?.['method'] === 'elicitation/create',
  )?.message;
  if (question === undefined || question === null) return undefined;
  const answer = record.find(
    ({ from, message }) =>
      from === 'client' && message?.['method'] === undefined && message?.['id'] === question['id'],
  )?.message;
  if (answer === undefined || answer === null) return 'none';
  return objectMember(answer, 'result') ?? answer;
}

function sessionOf(record: readonly Recorded[], begun: readonly Exchange[]): Behaviour['session'] {
  if (begun.every(({ response }) => response?.['result'] === undefined)) return 'none';
  const isEnded = record.some((entry) => entry.from === 'client' && entry.verb === 'DELETE');
  return isEnded ? 'ended' : 'left open';
}

function identityOf(request: JsonObject): Pick<Behaviour, 'client' | 'declares'> {
  const params = objectMember(request, 'params') ?? {};
  const meta = objectMember(params, '_meta') ?? {};
  const info = objectMember(params, 'clientInfo') ?? objectMember(meta, `${ENVELOPE}clientInfo`);
  const capabilities =
    objectMember(params, 'capabilities') ?? objectMember(meta, `${ENVELOPE}clientCapabilities`);
  return {
    client: info ? { name: String(info['name']), version: String(info['version']) } : null,
    declares: ['elicitation', 'sampling', 'roots'].filter(
      (name) => capabilities?.[name] !== undefined,
    ),
  };
}

function revisionOf(request: JsonObject): string {
  const params = objectMember(request, 'params') ?? {};
  const meta = objectMember(params, '_meta') ?? {};
  return String(params['protocolVersion'] ?? meta[`${ENVELOPE}protocolVersion`] ?? 'none');
}

function toolOf(request: JsonObject): unknown {
  return objectMember(request, 'params')?.['name'];
}

/** What its last opening was refused with. A client can try older transports after that, whose refusals say less. */
function refusalOf(record: readonly Recorded[], openings: readonly Exchange[]): string | null {
  const refused = openings.findLast(({ response }) => response?.['error'] !== undefined);
  if (refused?.response !== undefined) return textOf(refused.response);
  const failed = record.findLast((entry) => entry.from === 'gateway' && entry.status >= 400);
  return failed?.from === 'gateway' ? `HTTP ${failed.status}` : null;
}

/** The text of a result, or of an error. */
function textOf(message: JsonObject): string {
  const error = objectMember(message, 'error');
  if (error !== undefined) return String(error['message']);
  const content = objectMember(message, 'result')?.['content'];
  const [first] = Array.isArray(content) ? content : [];
  return isJsonObject(first) ? String(first['text'] ?? '') : '';
}
