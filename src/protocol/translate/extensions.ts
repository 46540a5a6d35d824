/**
 * The extensions that pass between modern clients and legacy servers: who declares each of them, and what it needs. One that
 * has messages of its own is here only if these are translated (versioning, "Extension Negotiation").
 */
import { isJsonObject, objectMember, type JsonObject } from '../json.ts';

/** The settings of extensions, by their identifiers. */
export type Extensions = Readonly<Record<string, JsonObject>>;

/** Tasks (SEP-2663), which the gateway itself offers. */
export const TASKS = 'io.modelcontextprotocol/tasks';
/** OpenAI's forms, which a legacy server asks for with `openai/elicitation/create`. */
export const OPENAI_FORMS = 'openai/elicitation';
/** What a client has to declare that is asked for such a form. */
export const OPENAI_FORMS_NEED = {
  elicitation: { form: {} },
  extensions: { [OPENAI_FORMS]: { form: {} } },
} as const;

interface Extension {
  /**
   * Returns the settings of a client that servers are told, or `null` for none. Only known members pass: the settings are part
   * of the key of a session, so a client must not choose them freely. Absent if clients do not declare the extension.
   */
  readonly ofClient?: (settings: JsonObject, client: ExtensionClient) => JsonObject | null;
  /** Where servers declare the extension, the first place first. Clients are told their settings as sent. */
  readonly ofServer: readonly ServerPlace[];
}

/** Servers declared extensions among `experimental` before there was `extensions`. */
type ServerPlace = 'extensions' | 'experimental';

/** What else a client declares, as far as an extension needs it. */
interface ExtensionClient {
  readonly elicitationForm: boolean;
}

const ANY_PLACE: readonly ServerPlace[] = ['extensions', 'experimental'];
const SERVED_BY_TOOLS: Extension = { ofServer: ANY_PLACE };

const EXTENSIONS: Readonly<Record<string, Extension>> = {
  // MCP Apps: `ui://` resources, and `_meta.ui` of tools that show them.
  'io.modelcontextprotocol/ui': { ofClient: views, ofServer: ['extensions'] },
  [OPENAI_FORMS]: { ofClient: openaiForms, ofServer: [] },
  'openai/settings': SERVED_BY_TOOLS,
  'openai/mentions': SERVED_BY_TOOLS,
};

/** Reads the extensions of a client that are declared to servers. */
export function clientExtensions(capabilities: JsonObject, client: ExtensionClient): Extensions {
  const declared: Record<string, JsonObject> = {};
  for (const [id, { ofClient }] of Object.entries(EXTENSIONS)) {
    const settings = extension(capabilities, 'extensions', id);
    const told = settings === undefined ? null : (ofClient?.(settings, client) ?? null);
    if (told !== null) declared[id] = told;
  }
  return declared;
}

/**
 * Reads the extensions of a server that are declared to clients.
 * @param named identifiers of further ones, by the operator
 */
export function serverExtensions(
  capabilities: JsonObject,
  named: readonly string[] = [],
): Extensions {
  const others = named.map((id) => [id, SERVED_BY_TOOLS] as const);
  const declared: Record<string, JsonObject> = {};
  for (const [id, { ofServer }] of [...Object.entries(EXTENSIONS), ...others]) {
    const place = ofServer.find((each) => extension(capabilities, each, id) !== undefined);
    const settings = place && extension(capabilities, place, id);
    if (settings !== undefined) declared[id] = settings;
  }
  return declared;
}

/** Tells whether a client declares an extension. */
export function declaresExtension(capabilities: JsonObject, id: string): boolean {
  return extension(capabilities, 'extensions', id) !== undefined;
}

/** Leaves out extensions by which a server can ask. */
export function withoutQuestions(extensions: Extensions): Extensions {
  const { [OPENAI_FORMS]: _asks, ...rest } = extensions;
  return rest;
}

function extension(
  capabilities: JsonObject,
  place: ServerPlace,
  id: string,
): JsonObject | undefined {
  return objectMember(objectMember(capabilities, place) ?? {}, id);
}

/** The media types of views that MCP Apps define. */
const VIEWS = ['text/html;profile=mcp-app'];

function views({ mimeTypes }: JsonObject): JsonObject {
  if (!Array.isArray(mimeTypes)) return {};
  return { mimeTypes: VIEWS.filter((view) => mimeTypes.includes(view)) };
}

/** A client has to declare plain forms, too ("OpenAI Form Elicitation", "Multi-Round-Trip Elicitation"). */
function openaiForms(
  { form }: JsonObject,
  { elicitationForm }: ExtensionClient,
): JsonObject | null {
  return elicitationForm && isJsonObject(form) ? { form: {} } : null;
}
