/** JSON in the schemas of what we wrote ourselves: taken as it is, whatever it holds. */
import { z } from 'zod';
import {
  isJsonNumber,
  isJsonObject,
  type ExactNumber,
  type JsonObject,
  type JsonValue,
} from './json.ts';

export const jsonNumber = z.custom<number | ExactNumber>(
  isJsonNumber,
  'Invalid input: expected number',
);
export const jsonObject = z.custom<JsonObject>(isJsonObject, 'Invalid input: expected object');
export const jsonValue = z.custom<JsonValue>(
  (value) => value !== undefined,
  'Invalid input: expected a value',
);
