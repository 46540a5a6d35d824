/** What a configuration comes to: every value present, every unit in its name. */
import type { IdentitySource } from '../identity/identity.ts';
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
  readonly parking: ParkingConfig;
  readonly questions: QuestionsConfig;
}

export interface UpstreamConfig {
  readonly url: URL;
  readonly transport: 'auto' | 'streamable-http' | 'http-sse';
  /** Headers that the operator sets on every request upstream. */
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

export interface ParkingConfig {
  /** How long one round may wait for its answers. */
  readonly ttlMs: number;
  /** How long a call may take over all its rounds. */
  readonly callTtlMs: number;
  /** How long the server may work while a client is attached. */
  readonly maxDurationMs: number;
  readonly maxRounds: number;
  /** How long an outcome is kept for a retry that is sent twice. */
  readonly redeliverMs: number;
}

export interface QuestionsConfig {
  /** Keys of `inputRequests` by tool, prompt or resource, in the order in which it asks. */
  readonly keyNames: Readonly<Record<string, readonly string[]>>;
  /** Whether a string id of the server's that is a plain name becomes the key. */
  readonly keysFromStringIds: boolean;
  /** Whether a question that the client did not declare ends the call at once. */
  readonly strictCapabilities: boolean;
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

export interface EdgeConfig {
  /** Origins of browser clients that may call; loopback origins may where we listen on loopback. */
  readonly allowedOrigins: readonly string[];
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
