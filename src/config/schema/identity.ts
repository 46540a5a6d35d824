/** The keys by which callers are told apart. */
import { z } from 'zod';
import { text } from './fields.ts';
import { HEADER_NAME } from './names.ts';

export const identity = z
  .discriminatedUnion(
    'source',
    [
      z.strictObject({ source: z.literal('none') }),
      z.strictObject({
        source: z.literal('header'),
        header: text(HEADER_NAME, 'the name of an HTTP header', 'header name').describe(
          'The header that holds the principal. The proxy must remove it from what clients send. A request without it gets 401, also one that would be passed through, unless it reads `/.well-known/`.',
        ),
      }),
    ],
    {
      error: ({ input }) =>
        typeof input === 'object' && input !== null ? 'none or header' : 'a map with a source',
    },
  )
  .prefault({ source: 'none' })
  .describe(
    'Who names the caller: `none` (callers are told apart by their credentials), or a `header` that a trusted proxy sets.',
  );
