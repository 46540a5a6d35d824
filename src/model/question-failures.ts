/** Failures of calls whose questions cannot be asked or answered. */
import { isJsonObject, objectMember, type JsonObject } from '../protocol/json.ts';
import type { JsonRpcErrorObject } from '../protocol/json-rpc.ts';
import { OPENAI_FORMS } from '../protocol/translate/extensions.ts';
import { callFailure } from './failures.ts';
import type { Failure } from './request.ts';

export const ELICITATION_DECLINED: Failure = callFailure(
  'elicitation_declined',
  'yes',
  'The user declined to visit a URL that the server requires',
);

export const ASKS_WITHOUT_END: Failure = callFailure(
  'upstream_protocol_error',
  'yes',
  'The server asked more questions in one call than the gateway keeps. The call was cancelled',
);

const NOT_ANSWERABLE = {
  no_session_id:
    'The server asked for input but issued no session id (Mcp-Session-Id), so no answer can reach it. The call was cancelled. Run the server with sessions',
  broadcast:
    'The server sends its questions to every session and has other clients, so the gateway cannot tell whose question this is. The question was refused. Run one gateway process without relay and Redis, or a server that keeps sessions apart',
  ambiguous:
    'The server asked for input without naming a call while several calls of the caller were running, or one had been cancelled a moment before, so the gateway cannot tell which of them it was for. The question was declined. Make such calls one after the other, or set sessions.concurrency to queue or separate',
} as const;

/** Why the gateway cannot deliver an answer to a question of the server. */
export type NotAnswerableCause = keyof typeof NOT_ANSWERABLE;

/**
 * Builds the failure of a call whose question cannot be answered.
 * @param upstream the error of the server, if the call may have failed for another reason
 */
export function notAnswerable(cause: NotAnswerableCause, upstream?: JsonRpcErrorObject): Failure {
  const error = upstream === undefined ? {} : { upstream: { ...upstream } };
  return callFailure('call_not_answerable', 'yes', NOT_ANSWERABLE[cause], { cause, ...error });
}

/** What a client cannot do, in words for its user. */
const CANNOT = [
  [
    'elicitation',
    'asks the user something, and this client cannot show questions (elicitation)',
    'sends the user to a web page, and this client cannot open one (elicitation.url)',
  ],
  ['sampling', 'asks a model something, and this client does not lend its own (sampling)'],
  ['roots', 'asks which folders to use, and this client does not name any (roots)'],
] as const;

const CANNOT_SHOW_OPENAI_FORM = `asks the user something in a form that this client cannot show (${OPENAI_FORMS})`;

const MAX_QUOTED_CHARACTERS = 500;

/**
 * Builds the failure of a call that needs undeclared capabilities. The client must not be asked for what
 * it does not declare (MRTR, server requirement 7).
 * @param upstream what the server said of it, if anything: its error, or the result of a tool that failed
 */
export function missingCapability(
  required: JsonObject,
  upstream?: JsonRpcErrorObject | JsonObject,
): Failure {
  const needsOpenaiForm = OPENAI_FORMS in (objectMember(required, 'extensions') ?? {});
  const lacks = CANNOT.flatMap(([name, does, visits]) => {
    const needed = objectMember(required, name);
    if (needed === undefined) return [];
    if (name === 'elicitation' && needsOpenaiForm) return [CANNOT_SHOW_OPENAI_FORM];
    return [visits !== undefined && !('form' in needed) && 'url' in needed ? visits : does];
  });
  const sentences = lacks.map((does) => `This tool ${does}. `).join('');
  const text = firstTextOf(upstream);
  const said = text === null ? '' : `. The tool said: "${text}"`;
  const problem = `${sentences}A request has to declare in \`_meta\` what data.requiredCapabilities names${said}`;
  const error = upstream === undefined ? {} : { upstream: { ...upstream } };
  return callFailure('-', 'yes', problem, { requiredCapabilities: required, ...error });
}

function firstTextOf(result: JsonRpcErrorObject | JsonObject | undefined): string | null {
  const content = result !== undefined && 'content' in result ? result['content'] : null;
  const blocks = Array.isArray(content) ? content.filter(isJsonObject) : [];
  const text = blocks.map((block) => block['text']).find((value) => typeof value === 'string');
  if (text === undefined || text.length <= MAX_QUOTED_CHARACTERS) return text ?? null;
  return `${text.slice(0, MAX_QUOTED_CHARACTERS)}…`;
}

/**
 * Builds the failure of a retry with a malformed answer. The pointer stays valid.
 * @param key the key in `inputResponses`
 */
export function illFormedAnswer(key: string, problem: string): Failure {
  const invalid = `Invalid inputResponses["${key}"]: ${problem}`;
  return callFailure('invalid_input_response', 'yes', invalid, { key });
}
