/** The HTTP framework without what the gateway does not use of it. */
import type { FastifyServerOptions } from 'fastify';

/** No route has a JSON schema: without this, the framework loads ajv and fast-json-stringify when it starts. */
export const WITHOUT_SCHEMAS = {
  compilersFactory: { buildValidator: refuseSchema, buildSerializer: refuseSchema },
} satisfies FastifyServerOptions['schemaController'];

function refuseSchema(): never {
  throw new Error('routes of the gateway have no JSON schemas');
}
