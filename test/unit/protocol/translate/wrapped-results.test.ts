/** Results of tools for clients up to 2025-11-25, whose schemas of output are of objects. */
import { expect, test } from 'vitest';
import { WrappedResults } from '../../../../src/protocol/translate/for-legacy-clients.ts';

// Rule back-12.
test('references of a schema that is wrapped point to where it moved, also below properties with names of keywords', () => {
  const reference = (to: string) => ({ $ref: to });
  const schemaWith = (to: string) => ({
    type: 'array',
    $defs: { enum: { items: reference(to) }, const: { type: 'string' } },
    items: { properties: { default: reference(to), examples: { not: reference(to) } } },
    default: reference('#/$defs/const'),
    enum: [reference('#')],
  });
  const tool = new WrappedResults().tool({
    name: 'list',
    outputSchema: schemaWith('#/$defs/const'),
  });
  expect(tool).toEqual({
    name: 'list',
    outputSchema: {
      type: 'object',
      properties: { result: schemaWith('#/properties/result/$defs/const') },
      required: ['result'],
    },
  });
});
