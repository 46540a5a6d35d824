/** Options that all listeners share. */

/**
 * Fastify loads a validator and a serializer of JSON Schema unless it is given others: a tenth of the modules of the
 * program. No route has a schema.
 */
export const WITHOUT_SCHEMAS = {
  schemaController: {
    compilersFactory: { buildValidator: refuseSchema, buildSerializer: refuseSchema },
  },
};

function refuseSchema(): never {
  throw new TypeError('a route has a schema, and no compiler for schemas is loaded');
}
