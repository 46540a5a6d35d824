/** The form of an answer that comes from another process or from a store. */
import { z } from 'zod';
import { jsonObject, jsonValue } from '../protocol/json/form.ts';
import type { CallAnswer } from './request.ts';

export const callAnswer = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('result'), result: jsonObject }),
  z.strictObject({
    kind: z.literal('failed'),
    failure: z.strictObject({
      error: z.strictObject({
        code: z.number(),
        message: z.string(),
        data: z.exactOptional(jsonValue),
      }),
      httpStatus: z.int(),
      headers: z.exactOptional(z.record(z.string(), z.string())),
    }),
  }),
]) satisfies z.ZodType<CallAnswer>;
