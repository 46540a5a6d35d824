/** A server as a modern client sees it: requests without a session. And what it offers to modern clients only. */
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { isModernError, readMessage, type JsonRpcReply } from '../../protocol/json-rpc.ts';
import { Meta, MODERN_REVISION } from '../../protocol/meta.ts';
import { saysItIsModern } from '../../protocol/unsupported-version.ts';
import { asUpstreamFailure, protocolError, UpstreamFailure } from '../../model/upstream-failure.ts';
import type { HttpClient } from '../http/client.ts';
import { MessageReader } from '../http/readers.ts';
import { modernPost } from '../modern/request-headers.ts';
import {
  readListings,
  type Entry,
  type List,
  type Listings,
  type ResourceEntry,
} from './listings.ts';
import type { CallerHeaders } from '../transport/transport.ts';

export class ModernSide {
  readonly #http: HttpClient;
  readonly #clientInfo: JsonObject;

  /** @param clientInfo what the gateway says of itself */
  constructor(http: HttpClient, clientInfo: JsonObject) {
    this.#http = http;
    this.#clientInfo = clientInfo;
  }

  /**
   * Finds out whether the server speaks `2026-07-28`. No reply in time means that it does not: some servers do not
   * reply to a method that they do not know.
   * @returns its capabilities, which are empty after an error; `null` if it does not speak it
   * @throws UpstreamFailure if the server cannot be reached, or refuses the credentials
   */
  async capabilities(headers: CallerHeaders, timeoutMs: number): Promise<JsonObject | null> {
    try {
      const reply = await this.request('server/discover', {}, headers, timeoutMs);
      return modernCapabilities(reply);
    } catch (error) {
      const { code } = asUpstreamFailure(error, false);
      if (code === 'upstream_timeout' || code === 'upstream_protocol_error') return null;
      throw error;
    }
  }

  /**
   * Reads what a client sees that declares nothing.
   * @param discoverMs how long `server/discover` can take
   * @param timeoutMs how long each page of a list can take
   * @returns `null` if the server does not speak 2026-07-28
   * @throws UpstreamFailure
   */
  async side(headers: CallerHeaders, discoverMs: number, timeoutMs: number): Promise<Side | null> {
    const capabilities = await this.capabilities(headers, discoverMs);
    if (capabilities === null) return null;
    const list: List = (method, params) => this.request(method, params, headers, timeoutMs);
    return { capabilities, ...(await readListings(capabilities, list)) };
  }

  /**
   * Sends a request, and waits for its reply.
   * @param timeoutMs for the whole response
   * @throws UpstreamFailure if there is no response, or one without a reply
   */
  async request(
    method: string,
    params: JsonObject,
    headers: CallerHeaders,
    timeoutMs: number,
  ): Promise<JsonRpcReply> {
    const _meta = ownMeta(this.#clientInfo);
    const id = 'mrtr-gateway-probe';
    const reader = new MessageReader(
      (message) => replyIn(message) !== null,
      () => exchange.end(),
    );
    const exchange = this.#http.send(
      {
        ...modernPost({ id, method, params: { ...params, _meta } }, headers),
        headersTimeoutMs: timeoutMs,
      },
      reader,
    );
    const tellLate = () => exchange.fail(tooLate(method, timeoutMs));
    const timer = this.#http.clock.setTimer(timeoutMs, tellLate);
    try {
      const [reply] = (await reader.done).messages.flatMap((message) => replyIn(message) ?? []);
      if (reply === undefined) throw protocolError(`it did not reply to ${method}`);
      return reply;
    } catch (error) {
      const failure = asUpstreamFailure(error, false);
      const { rpcError } = failure.details;
      if (rpcError !== undefined) return { error: rpcError };
      // A response that breaks off is not one to this method.
      const isBrokenOff = reader.responseHead !== null && failure.code === 'upstream_unavailable';
      throw isBrokenOff ? protocolError(`it did not reply to ${method}`) : failure;
    } finally {
      timer.cancel();
    }
  }
}

/** Builds the `_meta` of a request of the gateway itself, which declares nothing. */
export function ownMeta(clientInfo: JsonObject): JsonObject {
  return {
    [Meta.protocolVersion]: MODERN_REVISION,
    [Meta.clientInfo]: clientInfo,
    [Meta.clientCapabilities]: {},
  };
}

/**
 * Finds out from the reply to `server/discover` whether a server speaks `2026-07-28`.
 * @returns its capabilities, which are empty after an error; `null` if it does not speak it
 */
export function modernCapabilities(reply: JsonRpcReply): JsonObject | null {
  if ('error' in reply) {
    const isOther = saysItIsModern(reply.error) === false;
    return isModernError(reply.error.code) && !isOther ? {} : null;
  }
  const { supportedVersions, capabilities } = reply.result;
  const isModern = Array.isArray(supportedVersions) && supportedVersions.includes(MODERN_REVISION);
  if (!isModern) return null;
  return isJsonObject(capabilities) ? capabilities : {};
}

function replyIn(value: JsonValue): JsonRpcReply | null {
  const message = readMessage(value);
  return message.type === 'response' ? message.reply : null;
}

function tooLate(method: string, timeoutMs: number): UpstreamFailure {
  const problem = `no reply to ${method} within ${timeoutMs} ms`;
  return new UpstreamFailure('upstream_timeout', problem, { mayHaveActed: false });
}

const LISTS = ['tools', 'prompts', 'resources', 'resourceTemplates'] as const;

/** Names of one kind. */
export interface Offering {
  readonly what: 'capabilities' | (typeof LISTS)[number];
  readonly names: readonly string[];
}

/** One side of a server. */
export interface Side extends Listings {
  readonly capabilities: JsonObject;
}

/** Compares the sides of a server that supports both protocol versions: returns what the modern side has and the legacy side has not. A list that could not be read is left out. */
export function onlyModern(modern: Side, legacy: Side): readonly Offering[] {
  const known = new Set(featuresOf(legacy.capabilities));
  const capabilities = featuresOf(modern.capabilities).filter((name) => !known.has(name));
  return [
    { what: 'capabilities', names: capabilities } as const,
    ...LISTS.map((what) => {
      const there = legacy[what];
      const isKnown = there.problem === null && !there.truncated;
      const knownNames = new Set(there.items.map(nameOf));
      const names = modern[what].items.map(nameOf);
      return { what, names: isKnown ? names.filter((name) => !knownNames.has(name)) : [] };
    }),
  ].filter(({ names }) => names.length > 0);
}

/** Returns capabilities and their flags by name, such as `resources.subscribe`. */
function featuresOf(capabilities: JsonObject): string[] {
  return Object.entries(capabilities).flatMap(([name, value]) => {
    const members = isJsonObject(value) ? Object.entries(value) : [];
    const on = members.filter(([, set]) => set !== false).map(([member]) => `${name}.${member}`);
    return [name, ...on];
  });
}

function nameOf(item: Entry | ResourceEntry): string {
  return 'uri' in item ? item.uri : item.name;
}
