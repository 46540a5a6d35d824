/**
 * Extensions of the protocol that work through a translation, because they add nothing to the wire but
 * what both sides declare and what stands in members that are passed on as they are (versioning,
 * "Extension Negotiation").
 */
import { objectMember, type JsonObject } from './json.ts';

/** MCP Apps: `ui://` resources, and `_meta.ui` of tools that show them. */
const PASSED_ON = ['io.modelcontextprotocol/ui'];

/** In: the capabilities of a client or a server. Out: those of its extensions that the other side is told of. */
export function extensionsOf(capabilities: JsonObject): Readonly<Record<string, JsonObject>> {
  const declared = objectMember(capabilities, 'extensions') ?? {};
  return Object.fromEntries(
    PASSED_ON.flatMap((name) => {
      const settings = objectMember(declared, name);
      return settings === undefined ? [] : [[name, settings] as const];
    }),
  );
}
