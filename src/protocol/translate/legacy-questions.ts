/** Translates the questions of an `InputRequiredResult` to requests of a legacy server, and the answers back (MRTR). */
import { isJsonObject, objectMember, without, type JsonObject, type JsonValue } from '../json.ts';
import { isAtLeast } from '../meta.ts';
import { withoutReservedMeta } from './cleaning.ts';
import { letsUseTools, OPENAI_CREATE } from './input-request.ts';
import { OPENAI_FORMS } from './extensions.ts';
import type { LegacyClient } from './for-legacy-clients.ts';

/** A question as a legacy client is asked it. */
export interface LegacyQuestion {
  readonly method: string;
  readonly params: JsonObject;
  /** Where it leads the user; `null` if it has no URL. */
  readonly url: string | null;
}

export type QuestionTranslation =
  | { readonly type: 'ask'; readonly question: LegacyQuestion }
  /** The client has not declared that it can show it, as a server must not ask then (MRTR, server requirement 7). */
  | { readonly type: 'undeclared'; readonly required: JsonObject }
  | { readonly type: 'malformed' };

/**
 * Translates a question.
 * @param elicitationId for a URL, which 2025-11-25 wants to have one
 */
export function legacyQuestion(
  request: JsonValue,
  client: LegacyClient,
  elicitationId: string,
): QuestionTranslation {
  const { capabilities } = client;
  if (!isJsonObject(request)) return MALFORMED;
  const params = withoutReservedMeta(without(objectMember(request, 'params') ?? {}, ['task']));
  switch (request['method']) {
    case 'elicitation/create':
      return elicitation(params, client, elicitationId);
    case 'sampling/createMessage':
      return sampling(params, capabilities);
    case 'roots/list':
      if (objectMember(capabilities, 'roots') === undefined) return undeclared({ roots: {} });
      return ask('roots/list', params);
    default:
      return MALFORMED;
  }
}

const MALFORMED: QuestionTranslation = { type: 'malformed' };

function elicitation(
  params: JsonObject,
  { capabilities, revision, takesPlainForms }: LegacyClient,
  elicitationId: string,
): QuestionTranslation {
  const declared = objectMember(capabilities, 'elicitation');
  const { mode = 'form', url } = params;
  if (mode === 'url') {
    if (declared?.['url'] === undefined) return undeclared({ elicitation: { url: {} } });
    if (typeof url !== 'string') return MALFORMED;
    return ask('elicitation/create', { ...params, elicitationId }, url);
  }
  if (mode !== 'form') return MALFORMED;
  const takesRichForms = extensionOf(capabilities) !== undefined;
  if (!takesPlainForms && !takesRichForms) return undeclared({ elicitation: { form: {} } });
  const rich = takesRichForms ? richForm(params) : null;
  if (rich !== null) return ask(OPENAI_CREATE, rich);
  // It has more to its forms than the plain ones.
  if (!takesPlainForms) return ask(OPENAI_CREATE, params);
  // A member of 2025-11-25.
  return ask(
    'elicitation/create',
    isAtLeast(revision, '2025-11-25') ? params : without(params, ['mode']),
  );
}

function extensionOf(capabilities: JsonObject): JsonObject | undefined {
  return objectMember(objectMember(capabilities, 'extensions') ?? {}, OPENAI_FORMS);
}

/** Takes the form of OpenAI's extension out of `_meta`, where a modern server has it; `null` if there is none. */
function richForm({ _meta: meta, ...params }: JsonObject): JsonObject | null {
  if (!isJsonObject(meta)) return null;
  const { requestedSchema, ...others } = objectMember(meta, OPENAI_FORMS) ?? {};
  if (!isJsonObject(requestedSchema)) return null;
  const rest = without(meta, [OPENAI_FORMS]);
  const kept = Object.keys(others).length > 0 ? { ...rest, [OPENAI_FORMS]: others } : rest;
  return {
    ...params,
    requestedSchema,
    ...(Object.keys(kept).length > 0 && { _meta: kept }),
  };
}

function sampling(params: JsonObject, capabilities: JsonObject): QuestionTranslation {
  const declared = objectMember(capabilities, 'sampling');
  if (declared === undefined) return undeclared({ sampling: {} });
  if (letsUseTools(params) && declared['tools'] === undefined) {
    return undeclared({ sampling: { tools: {} } });
  }
  return ask('sampling/createMessage', params);
}

function ask(method: string, params: JsonObject, url: string | null = null): QuestionTranslation {
  return { type: 'ask', question: { method, params, url } };
}

function undeclared(required: JsonObject): QuestionTranslation {
  return { type: 'undeclared', required };
}
