/**
 * The rules of a route for what is passed through to its server. The server reads the bytes of the client, so only what both
 * read alike is passed on: one JSON-RPC message in a body of a known coding. The body decides, not the headers beside it.
 */
import type { IncomingMessage } from 'node:http';
import type { PassedRequest } from '../edge/options.ts';
import { decodeHeaderValue, isJsonMediaType, readHeaders } from '../edge/http/header-fields.ts';
import { readJsonBody } from '../edge/request/body.ts';
import { isMethod, nameMemberOf } from '../edge/request/methods.ts';
import { hasClaim } from '../edge/request/modern-request.ts';
import { refuse, sendRefusal, type UnnamedRefusal } from '../edge/response-writer.ts';
import { clientRequestId } from '../protocol/ids.ts';
import { excessOf, isJsonObject, parseJson, type JsonObject } from '../protocol/json.ts';
import { ErrorCode } from '../protocol/json-rpc.ts';
import type { Route } from '../routes/route.ts';
import type { PublicServices } from '../routes/shared-services.ts';
import { hasBody } from './passthrough/request.ts';
import type { RewriteMessage } from './passthrough/rewriting.ts';
import { rightsCheck } from './rights.ts';

const MAX_DEPTH = 64;
/** Without one, a result is not that of a list. */
const HAS_ITEMS = /"(?:tools|prompts|resources|resourceTemplates)"/;

export class PassedRights {
  readonly #route: Route;
  readonly #check: ReturnType<typeof rightsCheck>;
  /** Requests for lists that were let through. */
  readonly #lists = new WeakSet<IncomingMessage>();

  constructor(route: Route, { config }: PublicServices) {
    this.#route = route;
    this.#check = rightsCheck(route, config, route.config.path);
  }

  /**
   * Decides whether a POST whose body was read is passed through.
   * @param isOfStream whether its client expects the reply on another stream, and only a failure here (HTTP+SSE)
   * @returns false if it is not, and has its response
   */
  passes(request: PassedRequest, isOfStream: boolean): boolean {
    if (this.#route.rights === null) return true;
    const message = messageOf(request);
    const refusal = 'httpStatus' in message ? message : this.#refusalOf(request, message.message);
    if (refusal === null) return true;
    const { id } = 'message' in message ? message.message : {};
    const isId = typeof id === 'string' || typeof id === 'number';
    const { httpStatus } = refusal;
    // Nobody would look for an error in a response that is a success.
    const status = httpStatus === 200 && (isOfStream || !isId) ? 400 : httpStatus;
    sendRefusal(request.response, {
      ...{ mayHaveActed: 'no', ...refusal, httpStatus: status },
      id: isId ? clientRequestId(id) : null,
    });
    return false;
  }

  #refusalOf({ raw, caller }: PassedRequest, message: JsonObject): UnnamedRefusal | null {
    const era = hasClaim(message) ? 'modern' : 'legacy';
    const refusal = this.#check(caller, message, era) ?? headerRefusal(raw, message);
    if (refusal !== null) return refusal;
    const { method } = message;
    if (typeof method === 'string' && method.endsWith('/list')) this.#lists.add(raw);
    return null;
  }

  /**
   * Decides whether a request is passed through that is no POST: none of these carries a message.
   * @returns false if it is not, and has its response
   */
  passesWithoutMessage({ raw, response }: PassedRequest): boolean {
    if (this.#route.rights === null) return true;
    const { method = '' } = raw;
    if (!hasBody(raw) && !['PUT', 'PATCH'].includes(method)) return true;
    refuse(response, 405, `${method} with a body is not passed through`, {
      allow: 'GET, POST, DELETE',
    });
    raw.resume();
    return false;
  }

  /** Returns what rewrites the messages of the response to a request; `null` if no list can be among them. */
  rewriteOf({ raw, caller }: PassedRequest): RewriteMessage | null {
    const { rights } = this.#route;
    if (rights === null) return null;
    // Where replies come on a stream of their own, lists do, too.
    if (raw.method !== 'GET' && !this.#lists.has(raw)) return null;
    return (text) => {
      const message = HAS_ITEMS.test(text) ? parsedMessage(text) : null;
      if (!isJsonObject(message) || !isJsonObject(message['result'])) return text;
      const shown = rights.shown(caller, message['result']);
      if (shown === message['result']) return text;
      return JSON.stringify({ ...message, result: shown });
    };
  }
}

function parsedMessage(text: string): unknown {
  if (excessOf(text, MAX_DEPTH) !== null) return null;
  try {
    return parseJson(text);
  } catch {
    return null;
  }
}

/** Reads the one message of a body, as every server reads it. @returns how the request is refused if there is none */
function messageOf({
  body,
  raw: { headers },
}: PassedRequest): { readonly message: JsonObject } | UnnamedRefusal {
  const isPlain = (headers['content-encoding'] ?? 'identity') === 'identity';
  if (!isPlain || !isUtf8Json(headers['content-type'])) return UNREADABLE;
  const read = readJsonBody(body ?? Buffer.alloc(0));
  if (read.type !== 'json') return invalid(read.problem);
  if (isJsonObject(read.value)) return { message: read.value };
  return invalid('the body must be one message, not a list, since the route has rules');
}

/** A server that goes by another charset would read other text. */
function isUtf8Json(contentType: string | undefined): boolean {
  const charsets = [...(contentType ?? '').matchAll(/charset\s*=\s*"?([^\s;"]*)/gi)];
  return isJsonMediaType(contentType) && charsets.every(([, name]) => /^utf-?8$/i.test(name ?? ''));
}

function invalid(problem: string): UnnamedRefusal {
  const message = `Invalid request: ${problem}`;
  return { httpStatus: 400, error: { code: ErrorCode.invalidRequest, message } };
}

const UNREADABLE: UnnamedRefusal = {
  httpStatus: 415,
  error: {
    code: ErrorCode.invalidRequest,
    message:
      'The gateway decides by the body what is allowed here: expected application/json in UTF-8, not compressed',
  },
};

const NAMING_HEADERS = ['mcp-method', 'mcp-name'];

/** Compares the headers that repeat members of the body, where there are any: a server could go by them. */
function headerRefusal(
  { rawHeaders }: IncomingMessage,
  { method, params }: JsonObject,
): UnnamedRefusal | null {
  const named = isJsonObject(params) && typeof method === 'string' ? params : {};
  const member = typeof method === 'string' && isMethod(method) ? nameMemberOf(method) : 'uri';
  const said = [method, member === null ? undefined : named[member]];
  const differs = readHeaders(rawHeaders, NAMING_HEADERS).findIndex((field, index) => {
    if (field.type === 'absent') return false;
    return field.type === 'repeated' || decodeHeaderValue(field.value) !== said[index];
  });
  if (differs < 0) return null;
  const message = `Header mismatch: ${NAMING_HEADERS[differs]} differs from the body`;
  return { httpStatus: 400, error: { code: ErrorCode.headerMismatch, message } };
}
