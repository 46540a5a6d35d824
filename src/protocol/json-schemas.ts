/** Schemas of JSON in messages that this gateway wrote itself: any content is accepted. */
import { z } from 'zod';
import { isJsonObject, type JsonObject, type JsonValue } from './json.ts';

export const jsonObject = z.custom<JsonObject>(isJsonObject, 'Invalid input: expected object');
export const jsonValue = z.custom<JsonValue>(
  (value) => value !== undefined,
  'Invalid input: expected a value',
);
