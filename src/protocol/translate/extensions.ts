/**
 * Extensions that work through a translation: they add only declarations, and members that are forwarded
 * unchanged (versioning, "Extension Negotiation").
 */
import { objectMember, type JsonObject } from '../json/json.ts';

/** MCP Apps: `ui://` resources, and `_meta.ui` of tools that show them. */
const APPS = 'io.modelcontextprotocol/ui';
/** The media types of views that the extension defines. */
const VIEWS = ['text/html;profile=mcp-app'];

export type Extensions = Readonly<Record<string, JsonObject>>;

/**
 * Reads the extensions of a client that are declared to the server, with known settings only: they are part
 * of the key of a session, so a client must not choose them freely.
 */
export function clientExtensions(capabilities: JsonObject): Extensions {
  const settings = readApps(capabilities);
  if (settings === undefined) return {};
  const { mimeTypes } = settings;
  if (!Array.isArray(mimeTypes)) return { [APPS]: {} };
  return { [APPS]: { mimeTypes: VIEWS.filter((view) => mimeTypes.includes(view)) } };
}

/** Reads the extensions of a server that are declared to clients. */
export function serverExtensions(capabilities: JsonObject): Extensions {
  const settings = readApps(capabilities);
  return settings === undefined ? {} : { [APPS]: settings };
}

function readApps(capabilities: JsonObject): JsonObject | undefined {
  return objectMember(objectMember(capabilities, 'extensions') ?? {}, APPS);
}
