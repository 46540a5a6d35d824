/** What transports can do. What depends on the transport asks for a trait: a new transport is a new row here. */

export type TransportKind = 'streamable-http' | 'http-sse' | 'stdio';

export interface TransportTraits {
  /** The server is reached over HTTP, so that a legacy client can be passed through to it. */
  readonly hasHttp: boolean;
  /** Each request has a stream of its own. Else all messages come on one stream, and the session ends with that. */
  readonly namesTheCall: boolean;
  /** Another connection, or another process, can take a session over. */
  readonly resumes: boolean;
  /** Bridges are known that send what is for one session to all. */
  readonly mayBroadcast: boolean;
  /** The server names the paths that messages are posted to. */
  readonly namesPaths: boolean;
}

export const TRAITS: Readonly<Record<TransportKind, TransportTraits>> = {
  'streamable-http': {
    hasHttp: true,
    namesTheCall: true,
    resumes: true,
    mayBroadcast: false,
    namesPaths: false,
  },
  'http-sse': {
    hasHttp: true,
    namesTheCall: false,
    resumes: false,
    mayBroadcast: true,
    namesPaths: true,
  },
  stdio: {
    hasHttp: false,
    namesTheCall: false,
    resumes: false,
    mayBroadcast: false,
    namesPaths: false,
  },
};

/** Returns the traits of the transport of a legacy server; `null` for a modern one, and while nothing is known. */
export function traitsOf(kind: TransportKind | 'modern' | null): TransportTraits | null {
  return kind === null || kind === 'modern' ? null : TRAITS[kind];
}
