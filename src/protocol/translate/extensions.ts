/**
 * Extensions of the protocol that work through a translation, because they add nothing to the wire but
 * what both sides declare and what stands in members that are passed on as they are (versioning,
 * "Extension Negotiation").
 */
import { objectMember, type JsonObject } from '../json/json.ts';

/** MCP Apps: `ui://` resources, and `_meta.ui` of tools that show them. */
const APPS = 'io.modelcontextprotocol/ui';
/** What its views may be, as the extension has it. */
const VIEWS = ['text/html;profile=mcp-app'];

export type Extensions = Readonly<Record<string, JsonObject>>;

/**
 * In: the capabilities of a client. Out: those of its extensions that the server is told of, with the
 * settings that they define: sessions are kept apart by them, so a client must not make them up.
 */
export function clientExtensions(capabilities: JsonObject): Extensions {
  const settings = declared(capabilities);
  if (settings === undefined) return {};
  const { mimeTypes } = settings;
  if (!Array.isArray(mimeTypes)) return { [APPS]: {} };
  return { [APPS]: { mimeTypes: VIEWS.filter((view) => mimeTypes.includes(view)) } };
}

/** In: the capabilities of a server. Out: those of its extensions that clients are told of. */
export function serverExtensions(capabilities: JsonObject): Extensions {
  const settings = declared(capabilities);
  return settings === undefined ? {} : { [APPS]: settings };
}

function declared(capabilities: JsonObject): JsonObject | undefined {
  return objectMember(objectMember(capabilities, 'extensions') ?? {}, APPS);
}
