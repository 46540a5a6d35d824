/** What a configuration comes to: every value present, every unit in its name. */
import type { IdentitySource } from '../identity/identity.ts';
import type { RedisOptions } from '../replicas/redis/options.ts';
import type { LogLevel } from '../ops/log.ts';

export interface ListenAddress {
  readonly host: string;
  /** `0` lets the system choose. */
  readonly port: number;
}

export interface Config {
  readonly listen: ListenAddress;
  /** `null` when there is no admin listener. */
  readonly admin: ListenAddress | null;
  readonly routes: readonly RouteConfig[];
  readonly identity: IdentitySource;
  readonly seal: SealConfig;
  /** `null`: retries that belong to other replicas are not passed on. */
  readonly relay: RelayConfig | null;
  /** `null`: replicas share nothing but their sealing keys. */
  readonly redis: RedisConfig | null;
  readonly edge: EdgeConfig;
  readonly limits: LimitsConfig;
  readonly drain: DrainConfig;
  readonly log: LogConfig;
}

export interface RouteConfig {
  /** Names the route in logs, metrics and sealed pointers. */
  readonly id: string;
  /** The public path, such as `/mcp`. */
  readonly path: string;
  readonly upstream: UpstreamConfig;
  readonly sessions: SessionsConfig;
  readonly calls: CallsConfig;
  readonly parking: ParkingConfig;
  readonly continuation: ContinuationConfig;
  readonly questions: QuestionsConfig;
  readonly tools: ToolsConfig;
  readonly caching: CachingConfig;
}

export interface UpstreamConfig {
  readonly url: URL;
  readonly transport: 'auto' | 'streamable-http' | 'http-sse';
  /** Headers that the operator sets on every request to the endpoint. */
  readonly headers: Readonly<Record<string, string>>;
  /** What becomes of the client's `Authorization` header. */
  readonly authorization: 'forward' | 'strip';
  readonly connectTimeoutMs: number;
  /** How long the head of an answer may take, and the answer of a request that asks nothing. */
  readonly headersTimeoutMs: number;
  readonly maxBodyBytes: number;
  readonly maxEventBytes: number;
  readonly pingIntervalMs: number;
  /** The server keeps its sessions without a session id (one single process). */
  readonly statefulWithoutSessionId: boolean;
}

export interface SessionsConfig {
  /** `null`: `call` for anonymous callers, `principal` for others. */
  readonly scope: 'principal' | 'call' | 'shared' | null;
  readonly idleTimeoutMs: number;
  readonly maxIdle: number;
}

export interface CallsConfig {
  /** How long the server may work while a client is attached. */
  readonly maxDurationMs: number;
  /** After this long without an outcome the client is asked to call again. `null`: never. */
  readonly maxHoldMs: number | null;
}

export interface ParkingConfig {
  /** How long one round may wait for its answers. */
  readonly ttlMs: number;
  /** How long a call may take over all its rounds. */
  readonly callTtlMs: number;
  readonly maxRounds: number;
  /** How long an outcome is kept for a retry that is sent twice. */
  readonly redeliverMs: number;
  /** Whether a parked call is let go at once where any replica can read on from where it stopped. */
  readonly release: 'never' | 'when-resumable';
}

export interface ContinuationConfig {
  /** Whether a call whose owner is gone is read on by another replica, if the server keeps its events. */
  readonly reattach: boolean;
  readonly replay: ReplayConfig;
}

/** The calls that may be made anew when they are lost. */
export interface ReplayConfig {
  readonly tools: readonly string[];
  /** Also tools that the server calls read-only or idempotent. */
  readonly annotated: boolean;
}

export interface QuestionsConfig {
  /** Keys of `inputRequests` by tool, prompt or resource, in the order in which it asks. */
  readonly keyNames: Readonly<Record<string, readonly string[]>>;
  /** Whether a string id of the server's that is a plain name becomes the key. */
  readonly keysFromStringIds: boolean;
  /** Whether a question that the client did not declare ends the call at once. */
  readonly strictCapabilities: boolean;
  /** How long to wait for the server's word that a URL of its error -32042 was visited. */
  readonly urlVisitWaitMs: number;
}

export interface ToolsConfig {
  readonly parameterHeaders: 'strip' | 'validate';
}

export interface CachingConfig {
  readonly listTtlMs: number;
  readonly resourceTtlMs: number;
  readonly scope: 'private' | 'public';
  /** Whether lists are answered from here for as long as clients may keep them. */
  readonly serveLists: boolean;
}

export interface SealConfig {
  /** The first seals, all of them open. Empty: a key is made at start. */
  readonly keys: readonly SealKeyConfig[];
  /** The name that all replicas of one deployment share. */
  readonly audience: string;
}

export interface SealKeyConfig {
  readonly kid: string;
  /** 32 bytes as base64url. A secret. */
  readonly key: string;
}

export interface RelayConfig {
  readonly via: 'http' | 'redis';
  /** `null` where there is nothing to listen for. */
  readonly listen: ListenAddress | null;
  /** Where other replicas reach the listener; `null`: at its own address. */
  readonly advertise: URL | null;
}

export type RedisConfig = RedisOptions & {
  /** How long the start waits for the store. */
  readonly startWaitMs: number;
};

export interface EdgeConfig {
  /** Origins of browser clients that may call; loopback origins may where we listen on loopback. */
  readonly allowedOrigins: readonly string[];
  /** Names under which a gateway on loopback may be called. */
  readonly allowedHosts: readonly string[];
  /** Proxies in front of us, as addresses and networks, whose word on who asks is believed. */
  readonly trustedProxies: readonly string[];
  readonly legacyClients: 'pass-through' | 'reject';
  /** After this long without an outcome an answer becomes an event stream. */
  readonly commitAfterMs: number;
  readonly keepAliveMs: number;
}

export interface LimitsConfig {
  readonly maxBodyBytes: number;
  readonly maxJsonDepth: number;
  readonly maxRunningCalls: number;
  readonly maxParkedCalls: number;
  readonly maxParkedCallsPerPrincipal: number;
  readonly maxConnections: number;
}

export interface DrainConfig {
  /** How long readiness says no while requests are still taken. */
  readonly delayMs: number;
  readonly timeoutMs: number;
}

export interface LogConfig {
  readonly level: LogLevel;
  /** `auto`: pretty on a terminal, JSON elsewhere. */
  readonly format: 'auto' | 'json' | 'pretty';
}
