/** The messages between the primary and its workers, over the channel that Node.js opens for a forked process. */
import type { Config } from '../config/schema.ts';
import type { StartFailureCode } from '../lib/program.ts';
import type { Readiness } from '../ops/admin.ts';
import type { OperatorReply, OperatorRequest } from '../app/live/operator.ts';
import type { MetricsSnapshot } from '../ops/metrics.ts';
import type { Arrival } from '../fleet/relay/direct/handshake.ts';
import type { StoreReply, StoreRequest } from '../fleet/store/remote-store.ts';
import type { SecretKey } from '../seal/key-ring.ts';
import type { CountEntries } from './shared-counts.ts';

/** A worker as its siblings see it. */
export interface Sibling {
  readonly instance: string;
  readonly address: string;
}

/** What a worker begins with. */
export interface WorkerStart {
  readonly type: 'start';
  /** The version of the primary: a package that is replaced while it runs makes its next worker another one. */
  readonly version: string;
  readonly number: number;
  /** See `writeConfig`. */
  readonly config: string;
  /** The key that the primary generated; `null` if keys are configured. */
  readonly generatedKey: WrittenKey | null;
  /** Whether the gateway was ready before. */
  readonly wasReady: boolean;
  /** The address of the gateway for other gateways; `null` if it has no relay listener. */
  readonly gatewayAddress: string | null;
  readonly counts: CountEntries;
}

export type ToWorker =
  | WorkerStart
  | { readonly type: 'siblings'; readonly siblings: readonly Sibling[] }
  | { readonly type: 'sibling-ended'; readonly instance: string }
  | { readonly type: 'serve'; readonly port: number }
  | { readonly type: 'counts'; readonly entries: CountEntries }
  | { readonly type: 'status'; readonly request: number; readonly of: StatusOf }
  /** What the operator asks. `isElsewhere`: also of other gateways. */
  | {
      readonly type: 'operator';
      readonly request: number;
      readonly asked: OperatorRequest;
      readonly isElsewhere: boolean;
    }
  /** With the socket of a replica that wants to reach this worker. */
  | ({ readonly type: 'arrival'; readonly id: number } & Pick<Arrival, 'to' | 'hello'>)
  /** The primary no longer reads from the socket of the arrival. */
  | { readonly type: 'accept'; readonly id: number }
  | { readonly type: 'store-reply'; readonly request: number; readonly reply: StoreReply }
  /** Prepares a configuration, which takes effect with `commit`. That or `abandon` follows before the next one. */
  | { readonly type: 'prepare'; readonly request: number; readonly config: string }
  | { readonly type: 'commit' }
  | { readonly type: 'abandon' }
  | { readonly type: 'drain' };

export type FromWorker =
  | ({ readonly type: 'joined' } & Sibling)
  | { readonly type: 'serving'; readonly origin: string }
  | { readonly type: 'counts'; readonly entries: CountEntries }
  | { readonly type: 'status'; readonly request: number; readonly status: WorkerStatus }
  | { readonly type: 'operator'; readonly request: number; readonly reply: OperatorReply }
  | { readonly type: 'arrived'; readonly id: number }
  | { readonly type: 'store'; readonly request: number; readonly asked: StoreRequest }
  /** `problems`: why it cannot use the configuration; empty if it can. */
  | { readonly type: 'prepared'; readonly request: number; readonly problems: readonly string[] }
  /** It could not start. */
  | { readonly type: 'failed'; readonly code: StartFailureCode; readonly message: string };

/** What of its status a worker is asked for, besides its readiness. */
export type StatusOf = 'readiness' | 'metrics';

export interface WorkerStatus {
  readonly readiness: Readiness;
  /** `null` if not asked for. */
  readonly metrics: MetricsSnapshot | null;
}

/** Writes a configuration as JSON, with URLs as maps of one member. */
export function writeConfig(config: Config): string {
  return JSON.stringify(config, function (this: Record<string, unknown>, key, value: unknown) {
    const original = this[key];
    return original instanceof URL ? { [URL_MEMBER]: original.href } : value;
  });
}

/** Reads what `writeConfig` wrote. */
export function readConfig(text: string): Config {
  return JSON.parse(text, (_key, value: unknown) => {
    if (typeof value !== 'object' || value === null) return value;
    const [[name, href] = []] = Object.entries<unknown>(value as Record<string, unknown>);
    return name === URL_MEMBER && typeof href === 'string' ? new URL(href) : value;
  }) as Config;
}

/** A sealing key as a configuration has it. */
type WrittenKey = Config['seal']['keys'][number];

export function writeKey({ kid, secret }: SecretKey): WrittenKey {
  return { kid, key: Buffer.from(secret).toString('base64url') };
}

/** No map of a configuration has it as a key with a text as value. */
const URL_MEMBER = '\nurl';
