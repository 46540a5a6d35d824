/**
 * Translates a legacy server's question to a modern input request, and the client's answer back. Each side
 * gets what its revision allows, and a client sees only what it declared (MRTR, server requirement 7).
 */
import type { ClientProfile } from './client-profile.ts';
import { OPENAI_FORMS, OPENAI_FORMS_NEED } from './extensions.ts';
import {
  normaliseElicitationSchema,
  restoreContent,
  type SchemaInverse,
} from './elicitation-schema.ts';
import { fromServer, withoutReservedMeta } from './cleaning.ts';
import {
  isJsonNumber,
  isJsonObject,
  objectMember,
  without,
  type JsonObject,
  type JsonValue,
} from '../json.ts';
import { ErrorCode, type JsonRpcErrorObject, type JsonRpcReply } from '../json-rpc.ts';
import { isAtLeast, type LegacyRevision } from '../meta.ts';
import { urlProblem } from '../web-url.ts';

/** A value of `inputRequests`. It is a type, not an interface, so that the compiler takes it for a JSON object. */
export type InputRequest = { method: string; params: JsonObject };

/** How the answer to an input request is translated back. It is sealed into pointers. */
export type AnswerTranslation =
  | { readonly kind: 'elicitation-form'; readonly inverse: SchemaInverse }
  | { readonly kind: 'elicitation-url' }
  /** A form of OpenAI's extension, whose schema and answer are not touched. */
  | { readonly kind: 'openai-form' }
  | { readonly kind: 'sampling'; readonly blocks: SamplingBlocks }
  | { readonly kind: 'roots' };

export type InputRequestKind = AnswerTranslation['kind'];

/** How a legacy server asks for a form of OpenAI's extension. */
export const OPENAI_CREATE = 'openai/elicitation/create';

/** What a legacy server can ask for, by method. */
const QUESTIONS: ReadonlyMap<string, 'elicitation' | 'sampling' | 'roots'> = new Map([
  ['elicitation/create', 'elicitation'],
  [OPENAI_CREATE, 'elicitation'],
  ['sampling/createMessage', 'sampling'],
  ['roots/list', 'roots'],
]);

/** Returns what a server asks for with a method; `null` if that is no question. */
export function askedBy(method: string): 'elicitation' | 'sampling' | 'roots' | null {
  return QUESTIONS.get(method) ?? null;
}

/** A list of content blocks (2025-11-25, if the server sent tools), or one; audio since 2025-03-26. */
export type SamplingBlocks = 'many' | 'one' | 'oneWithoutAudio';

export type ServerRequestTranslation =
  | {
      readonly type: 'surface';
      readonly request: InputRequest;
      readonly back: AnswerTranslation;
    }
  | {
      readonly type: 'refuse';
      /** The reply to the server, by the rules of its revision. */
      readonly error: JsonRpcErrorObject;
      /** The capabilities that the client lacks, if that is the reason. */
      readonly requiredCapabilities: JsonObject | null;
      readonly reason: string;
    };

export type AnswerReading =
  | { readonly type: 'respond'; readonly reply: JsonRpcReply }
  | { readonly type: 'ill-formed'; readonly problem: string };

/** Translates a request that a legacy server sends during a call. */
export function translateServerRequest(
  method: string,
  params: JsonObject,
  profile: ClientProfile,
  revision: LegacyRevision,
): ServerRequestTranslation {
  switch (method) {
    case 'elicitation/create':
      return elicitation(params, profile);
    case OPENAI_CREATE:
      // It is `elicitation/create` with more to its forms.
      return params['mode'] === undefined || params['mode'] === 'form'
        ? openaiForm(params, profile)
        : elicitation(params, profile);
    case 'sampling/createMessage':
      return sampling(params, profile, revision);
    case 'roots/list':
      return roots(params, profile);
    default:
      return refuse(ErrorCode.methodNotFound, 'Method not found', 'unknown_method');
  }
}

/** Translates the client's answer. An ill-formed one is not sent to the server. */
export function translateInputResponse(back: AnswerTranslation, value: JsonValue): AnswerReading {
  if (!isJsonObject(value)) return illFormed('expected an object');
  switch (back.kind) {
    case 'elicitation-form':
    case 'elicitation-url':
    case 'openai-form':
      return readElicitation(value, back);
    case 'sampling':
      return readSampling(value, back.blocks);
    case 'roots':
      return readRoots(value);
  }
}

/** Builds the reply to a question that will not be answered any more. */
export function closeOutReply(kind: InputRequestKind): JsonRpcReply {
  switch (kind) {
    case 'elicitation-form':
    case 'elicitation-url':
    case 'openai-form':
      return { result: { action: 'cancel' } };
    case 'sampling':
      return { error: { code: USER_REJECTED, message: 'The request was not answered' } };
    case 'roots':
      return { error: { code: ErrorCode.internalError, message: 'The request was not answered' } };
  }
}

/** The code that the sampling specification shows for a user who refuses. */
const USER_REJECTED = -1;

function elicitation(params: JsonObject, profile: ClientProfile): ServerRequestTranslation {
  const { mode = 'form', message } = params;
  if (mode !== 'form' && mode !== 'url') {
    return refuse(ErrorCode.invalidParams, 'Unknown elicitation mode', 'unknown_mode');
  }
  if (mode === 'form' ? !profile.elicitationForm : !profile.elicitationUrl) {
    const declared = profile.elicitationForm || profile.elicitationUrl;
    return undeclared(
      { elicitation: { [mode]: {} } },
      declared ? ErrorCode.invalidParams : ErrorCode.methodNotFound,
    );
  }
  if (typeof message !== 'string') {
    return refuse(ErrorCode.invalidParams, '"message" must be a string', 'malformed');
  }
  return mode === 'form' ? formElicitation(params) : urlElicitation(params);
}

function formElicitation(params: JsonObject): ServerRequestTranslation {
  const requested = objectMember(params, 'requestedSchema');
  if (requested === undefined) {
    return refuse(ErrorCode.invalidParams, '"requestedSchema" must be an object', 'malformed');
  }
  const normalised = normaliseElicitationSchema(requested);
  if (normalised.type === 'unfit') {
    const message = `The client cannot show this elicitation: ${normalised.problem}`;
    return refuse(ErrorCode.internalError, message, 'schema_not_representable');
  }
  return {
    type: 'surface',
    request: {
      method: 'elicitation/create',
      params: { ...common(params), mode: 'form', requestedSchema: normalised.schema },
    },
    back: { kind: 'elicitation-form', inverse: normalised.inverse },
  };
}

/**
 * Puts the form into `_meta`, and an empty one in its place ("OpenAI Form Elicitation", "Multi-Round-Trip Elicitation"). It is
 * data of the server: nothing of it is checked, rewritten or left out.
 */
function openaiForm(params: JsonObject, profile: ClientProfile): ServerRequestTranslation {
  if (profile.extensions[OPENAI_FORMS] === undefined) {
    return undeclared(OPENAI_FORMS_NEED, ErrorCode.methodNotFound);
  }
  const requestedSchema = objectMember(params, 'requestedSchema');
  if (requestedSchema === undefined || typeof params['message'] !== 'string') {
    const problem = '"message" must be a string, and "requestedSchema" an object';
    return refuse(ErrorCode.invalidParams, problem, 'malformed');
  }
  const shown = common(params);
  const meta = objectMember(shown, '_meta') ?? {};
  const form = { ...objectMember(meta, OPENAI_FORMS), requestedSchema };
  return {
    type: 'surface',
    request: {
      method: 'elicitation/create',
      params: {
        ...shown,
        mode: 'form',
        requestedSchema: { type: 'object', properties: {} },
        _meta: { ...meta, [OPENAI_FORMS]: form },
      },
    },
    back: { kind: 'openai-form' },
  };
}

/** Shows the URL as it is: it is neither fetched nor rewritten (elicitation, "Safe URL Handling"). */
function urlElicitation(params: JsonObject): ServerRequestTranslation {
  const problem = urlProblem(params['url']);
  if (problem !== null) {
    return refuse(ErrorCode.invalidParams, `"url" must be ${problem}`, 'unsafe_url');
  }
  return {
    type: 'surface',
    request: {
      method: 'elicitation/create',
      params: without(common(params), ['elicitationId', 'requestedSchema']),
    },
    back: { kind: 'elicitation-url' },
  };
}

function sampling(
  params: JsonObject,
  profile: ClientProfile,
  revision: LegacyRevision,
): ServerRequestTranslation {
  if (!profile.sampling) return undeclared({ sampling: {} }, ErrorCode.methodNotFound);
  const withTools = letsUseTools(params);
  if (withTools && !profile.samplingTools) {
    return undeclared({ sampling: { tools: {} } }, ErrorCode.invalidParams);
  }
  if (!Array.isArray(params['messages'])) {
    return refuse(ErrorCode.invalidParams, '"messages" must be a list', 'malformed');
  }
  const shown: JsonObject = { ...common(params) };
  const { includeContext, tools } = shown;
  if (!profile.samplingContext && includeContext !== 'none') delete shown['includeContext'];
  if (Array.isArray(tools)) {
    shown['tools'] = tools.map((tool) =>
      isJsonObject(tool) ? without(tool, ['execution']) : tool,
    );
  }
  const one = isAtLeast(revision, '2025-03-26') ? 'one' : 'oneWithoutAudio';
  const many = withTools && isAtLeast(revision, '2025-11-25');
  return {
    type: 'surface',
    request: { method: 'sampling/createMessage', params: shown },
    back: { kind: 'sampling', blocks: many ? 'many' : one },
  };
}

/** Tells whether a sampling request needs a client with `sampling.tools` (sampling, "Capabilities"). */
export function letsUseTools({ tools, toolChoice }: JsonObject): boolean {
  return tools !== undefined || toolChoice !== undefined;
}

/** Always writes `params`: some clients cannot read a request without it. */
function roots(params: JsonObject, profile: ClientProfile): ServerRequestTranslation {
  if (!profile.roots) return undeclared({ roots: {} }, ErrorCode.methodNotFound);
  return {
    type: 'surface',
    request: { method: 'roots/list', params: common(params) },
    back: { kind: 'roots' },
  };
}

/** Removes `task`, which would ask the client to run a task. It never declared tasks to the server. */
function common(params: JsonObject): JsonObject {
  return without(fromServer(params), ['task']);
}

function undeclared(required: JsonObject, code: number): ServerRequestTranslation {
  return {
    type: 'refuse',
    error: { code, message: 'The client does not support this request' },
    requiredCapabilities: required,
    reason: 'capability_not_declared',
  };
}

function refuse(code: number, message: string, reason: string): ServerRequestTranslation {
  return { type: 'refuse', error: { code, message }, requiredCapabilities: null, reason };
}

type Elicitation = Extract<
  AnswerTranslation,
  { kind: 'elicitation-form' | 'elicitation-url' | 'openai-form' }
>;

function readElicitation(value: JsonObject, back: Elicitation): AnswerReading {
  const { action, content = {} } = value;
  if (action !== 'accept' && action !== 'decline' && action !== 'cancel') {
    return illFormed('"action" must be "accept", "decline" or "cancel"');
  }
  const hasContent = action === 'accept' && back.kind === 'elicitation-form';
  if (!hasContent && back.kind !== 'openai-form') return respond({ action });
  if (!isJsonObject(content)) return illFormed('"content" must be an object');
  const problem = contentProblem(content);
  if (problem !== null) return illFormed(problem);
  const answer = plainResult(value);
  // The server of an OpenAI form gets the answer as it is: members are neither added nor left out.
  if (back.kind !== 'elicitation-form') return respond(answer);
  return respond({ ...answer, content: restoreContent(content, back.inverse) });
}

function contentProblem(content: JsonObject): string | null {
  const wrong = Object.entries(content).find(([, value]) => !isFormValue(value));
  if (wrong === undefined) return null;
  return `content["${wrong[0]}"] must be a string, number, boolean or list of strings`;
}

function isFormValue(value: JsonValue): boolean {
  if (Array.isArray(value)) return value.every((item) => typeof item === 'string');
  return ['string', 'boolean'].includes(typeof value) || isJsonNumber(value);
}

function readSampling(value: JsonObject, blocks: SamplingBlocks): AnswerReading {
  const { role, content, model } = value;
  if (role !== 'user' && role !== 'assistant') {
    return illFormed('"role" must be "user" or "assistant"');
  }
  if (typeof model !== 'string') return illFormed('"model" must be a string');
  const list = Array.isArray(content) ? content : [content];
  if (!list.every(isContentBlock)) {
    return illFormed('"content" must be a content block or a list of them');
  }
  if (blocks === 'many') return respond(plainResult(value));
  const single = asOneBlock(list);
  const types: JsonValue[] = blocks === 'one' ? ['text', 'image', 'audio'] : ['text', 'image'];
  if (single !== null && types.includes(single['type'] ?? null)) {
    return respond({ ...plainResult(value), content: single });
  }
  const message = `Expected exactly one content block of type ${types.join(', ')}: the server accepts one block`;
  return { type: 'respond', reply: { error: { code: ErrorCode.internalError, message } } };
}

function isContentBlock(value: JsonValue | undefined): value is JsonObject {
  return isJsonObject(value) && typeof value['type'] === 'string';
}

/** Joins blocks for servers before 2025-11-25, whose answers have one block: texts become one text of several lines. */
function asOneBlock(blocks: readonly JsonObject[]): JsonObject | null {
  const [only] = blocks;
  if (blocks.length === 1 && only !== undefined) return only;
  const texts = blocks.map((block) => (block['type'] === 'text' ? block['text'] : null));
  if (texts.length === 0 || !texts.every((text) => typeof text === 'string')) return null;
  return { type: 'text', text: texts.join('\n') };
}

function readRoots(value: JsonObject): AnswerReading {
  const { roots: given } = value;
  if (!Array.isArray(given)) return illFormed('"roots" must be a list');
  const wrong = given.findIndex(
    (root) =>
      !isJsonObject(root) || typeof root['uri'] !== 'string' || !root['uri'].startsWith('file://'),
  );
  if (wrong >= 0) return illFormed(`roots[${wrong}].uri must be a file:// URI`);
  return respond(plainResult(value));
}

function plainResult(value: JsonObject): JsonObject {
  return without(withoutReservedMeta(value), ['resultType']);
}

function respond(result: JsonObject): AnswerReading {
  return { type: 'respond', reply: { result } };
}

function illFormed(problem: string): AnswerReading {
  return { type: 'ill-formed', problem };
}
