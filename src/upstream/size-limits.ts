/** The limits on the size of what a server sends, in words for the client and the log. */
import type { HeldBytes } from '../lib/byte-budget.ts';
import { UpstreamFailure, type UpstreamLimit } from '../model/upstream-failure.ts';

export type SizeLimit = 'upstream.maxEvent' | 'limits.maxMemoryPercent';

/** For who has no budget: each message has its own limit only. */
export const UNBOUNDED: HeldBytes = { hold: () => true, release: () => {} };

const MIB = 1024 * 1024;

/**
 * Describes a limit that is exceeded.
 * @param maxBytes its value
 * @param bytes the size of the message; `null` if it was not read to its end
 */
export function exceededLimit(
  limit: SizeLimit,
  maxBytes: number,
  bytes: number | null,
): UpstreamLimit {
  if (limit === 'limits.maxMemoryPercent') return `${limit} leaves no room for it now`;
  return `${limit} is ${sizeOf(maxBytes)}, and it has ${bytes === null ? 'more' : sizeOf(bytes)}`;
}

/** Rounds up, so that no size looks like a limit that it exceeds. */
function sizeOf(bytes: number): string {
  return bytes < MIB ? `${bytes} bytes` : `${Math.ceil((bytes / MIB) * 100) / 100} MiB`;
}

/**
 * Builds the failure for something that is too large.
 * @param what it is, for the log
 * @param exceeds the limit, if the client is told
 */
export function tooLarge(what: string, exceeds: UpstreamLimit | null): UpstreamFailure {
  const [problem, details] = exceeds === null ? [what, {}] : [`${what} (${exceeds})`, { exceeds }];
  return new UpstreamFailure('upstream_protocol_error', problem, {
    mayHaveActed: true,
    ...details,
  });
}

/** Builds the failure of a call or request whose reply was discarded. The server has done with it, and the session goes on. */
export function replyTooLarge(what: string, exceeds: UpstreamLimit): UpstreamFailure {
  return tooLarge(what, exceeds).with({ isForReply: true, hasReplied: true });
}
