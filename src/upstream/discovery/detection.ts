/** Finds out what a server speaks: which era, and over which transport. */
import type { JsonObject } from '../../protocol/json.ts';
import { asUpstreamFailure, protocolError, UpstreamFailure } from '../../model/upstream-failure.ts';
import type { Session } from '../session/session.ts';
import type { Transport } from '../transport/transport.ts';

export type LegacyTransport = Exclude<Transport['kind'], 'stdio'>;
export type UpstreamKind = LegacyTransport | 'modern';

/**
 * Why a server is spoken to as it is.
 * - `configured`: `upstream.era` or `upstream.transport` says so
 * - `sessions`: it takes a legacy handshake and keeps sessions, so that its tools can ask
 * - `no_sessions`: it takes a legacy handshake without a session, and speaks `2026-07-28`
 * - `only_legacy`: it takes a legacy handshake without a session, and does not speak `2026-07-28`
 * - `legacy_for_now`: it takes a legacy handshake without a session, and has not said whether it speaks `2026-07-28`
 * - `only_modern`: it refuses a legacy handshake, and speaks `2026-07-28`
 */
export type DetectionCause =
  'configured' | 'sessions' | 'no_sessions' | 'only_legacy' | 'legacy_for_now' | 'only_modern';

export interface Detected {
  readonly kind: UpstreamKind;
  readonly cause: DetectionCause;
  /** The session of the handshake, which is open; `null` if there is none. */
  readonly session: Session | null;
}

export interface DetectionOptions {
  readonly era: 'auto' | 'legacy' | 'modern';
  readonly transport: 'auto' | LegacyTransport;
  /** Opens a session of a client that declares nothing. */
  readonly open: (transport: LegacyTransport) => Promise<Session>;
  /**
   * Asks whether the server speaks `2026-07-28`. Throws UpstreamFailure if the answer decides nothing.
   * @param isAwaited whether nothing else can be done with the server, so that it may take its time
   */
  readonly modern: (isAwaited: boolean) => Promise<JsonObject | null>;
}

/** Statuses of a server that does not take a POST, or not this one (transports, "Backwards Compatibility"). */
const FALL_BACK_STATUSES = new Set([400, 404, 405]);
/** Statuses of a proxy that lost the server. */
const PROXY_STATUSES = new Set([502, 504]);

/**
 * Tries a legacy handshake first: a server whose tools ask in the legacy way can ask in a legacy session only.
 * @throws UpstreamFailure if the server does not respond, or does not speak MCP
 */
export async function detect(options: DetectionOptions): Promise<Detected> {
  const { era, transport, open, modern } = options;
  if (era === 'modern') {
    if ((await modern(true)) === null)
      throw protocolError('it does not speak 2026-07-28, and upstream.era is modern');
    return { kind: 'modern', cause: 'configured', session: null };
  }
  if (transport !== 'auto') {
    return { kind: transport, cause: 'configured', session: await open(transport) };
  }
  const isAuto = era === 'auto';
  const isModern = async (isAwaited: boolean): Promise<boolean | UpstreamFailure> => {
    if (!isAuto) return false;
    const asked = modern(isAwaited).then((capabilities) => capabilities !== null);
    return asked.catch((error: unknown) => asUpstreamFailure(error, false));
  };
  const session = await open('streamable-http').catch((error: unknown) => {
    const failure = asUpstreamFailure(error, false);
    if (!isRefusal(failure)) throw failure;
    return failure;
  });
  if (session instanceof UpstreamFailure) {
    const answer = await isModern(true);
    if (answer === true) return { kind: 'modern', cause: 'only_modern', session: null };
    const isFallBack = FALL_BACK_STATUSES.has(session.details.httpStatus ?? 0);
    // A server that says to neither what it speaks may say it later.
    if (!isFallBack) throw answer === false ? session : answer;
    const oldest = await open('http-sse').catch((error: unknown) => {
      if (answer !== false) throw answer;
      throw session.details.hasJson === true ? session : error;
    });
    return bridged('http-sse', oldest, isAuto);
  }
  if (session.interactive) return bridged('streamable-http', session, isAuto);
  // Without a session id there is nothing to end.
  await session.close();
  const answer = await isModern(false);
  if (answer === true) return { kind: 'modern', cause: 'no_sessions', session: null };
  const cause = answer === false ? 'only_legacy' : 'legacy_for_now';
  return { kind: 'streamable-http', cause: isAuto ? cause : 'configured', session: null };
}

function bridged(kind: LegacyTransport, session: Session, isAuto: boolean): Detected {
  return { kind, cause: isAuto ? 'sessions' : 'configured', session };
}

/** True if the server has replied, and it was not a legacy handshake. Credentials and load decide nothing. */
export function isRefusal({ code, details: { httpStatus } }: UpstreamFailure): boolean {
  if (code === 'upstream_protocol_error') return true;
  const isError = httpStatus !== undefined && !PROXY_STATUSES.has(httpStatus);
  return code === 'upstream_unavailable' && isError;
}
