/** Answers that a client gives before the question comes: whether they are ones to that question. */
import { z } from 'zod';
import { isJsonObject, objectMember, without, type JsonObject, type JsonValue } from '../json.ts';
import type { JsonRpcReply } from '../json-rpc.ts';
import { OPENAI_FORMS } from './extensions.ts';
import {
  translateInputResponse,
  type AnswerTranslation,
  type InputRequest,
} from './input-request.ts';

/**
 * Translates an answer that came ahead of its question. Nobody has seen the question, so more is checked than of another
 * answer: that a form is filled in as its schema demands.
 * @param request the question, as the client would be shown it
 * @param back how an answer to it is translated
 * @returns `null` if it does not fit, or if the question is to visit a URL
 */
export function readAnswerAhead(
  request: InputRequest,
  back: AnswerTranslation,
  value: JsonValue,
): JsonRpcReply | null {
  if (back.kind === 'elicitation-url') return null;
  const read = translateInputResponse(back, value);
  if (read.type === 'ill-formed' || !('result' in read.reply)) return null;
  const form = formOf(back, request.params);
  const isFilledIn = form !== null && isJsonObject(value) && value['action'] === 'accept';
  return isFilledIn && !fillsIn(form, value) ? null : read.reply;
}

/** Returns the schema of a form; `null` if the question is none. */
function formOf({ kind }: AnswerTranslation, params: JsonObject): JsonObject | null {
  if (kind === 'elicitation-form') return objectMember(params, 'requestedSchema') ?? {};
  if (kind !== 'openai-form') return null;
  const form = objectMember(objectMember(params, '_meta') ?? {}, OPENAI_FORMS);
  return objectMember(form ?? {}, 'requestedSchema') ?? {};
}

function fillsIn(written: JsonObject, answer: JsonObject): boolean {
  const schema = plainNumbers(written);
  const properties = Object.entries(objectMember(schema, 'properties') ?? {});
  const strict = {
    ...schema,
    // A default does not stand in for a value that the schema requires.
    properties: Object.fromEntries(
      properties.map(([name, one]) => [name, isJsonObject(one) ? without(one, ['default']) : one]),
    ),
    additionalProperties: false,
  };
  try {
    const form = z.fromJSONSchema(strict as Parameters<typeof z.fromJSONSchema>[0]);
    return form.safeParse(plainNumbers(objectMember(answer, 'content') ?? {})).success;
  } catch {
    // A schema that cannot be checked is for people to fill in.
    return false;
  }
}

/** Numbers that were kept as they were written are objects to a validator. */
function plainNumbers(value: JsonObject): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}
