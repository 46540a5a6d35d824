/** How a stream of Streamable HTTP is resumed: how it ended, who is told, and after which failures it is tried again. */
import { UpstreamFailure } from '../../model/upstream-failure.ts';

export interface StreamEnd {
  /** Why the connection broke, or `null` if it ended regularly. */
  readonly failure: UpstreamFailure | null;
  /** True if the gateway closed it because it was idle for too long. */
  readonly wasIdle: boolean;
}

export interface ResumeOptions {
  /** How long to wait before the first attempt, in ms. */
  readonly firstWaitMs?: number;
  /** Called when the stream is open, before its first message is received, with the time since the GET was written, in ms. */
  readonly onOpen: (afterMs: number) => void;
  /**
   * Called if the server accepts the request and holds back the head of its response. Servers of the Go SDK
   * send it with the first event, which may depend on an answer that is sent only over an open stream.
   */
  readonly onHeld?: () => void;
  /** How long after the GET was written `onHeld` is called if there is no head, in ms. Default: a second. */
  readonly heldAfterMs?: number;
}

/** The failure of what waits for a stream that the gateway closes. */
export function aborted(): UpstreamFailure {
  return new UpstreamFailure('upstream_unavailable', 'the stream was closed', {
    mayHaveActed: true,
  });
}

/** Returns true if a later attempt may succeed. */
export function mayPass({ code, details }: UpstreamFailure): boolean {
  return (
    code === 'upstream_unavailable' ||
    code === 'upstream_busy' ||
    code === 'upstream_timeout' ||
    // The server has not noticed yet that the former reader of the stream is gone.
    details.httpStatus === 409
  );
}

/**
 * Returns what it means that a response holds no reply: the server sent something else, or the connection broke.
 * @param failure of the body; `null` if it ended regularly
 */
export function withoutReply(
  { wrongReply }: { readonly wrongReply: string | null },
  failure: UpstreamFailure | null,
): UpstreamFailure {
  const isOfConnection = failure !== null && failure.code !== 'upstream_protocol_error';
  if (isOfConnection) return failure;
  const problem = failure?.message ?? wrongReply;
  const exceeds = failure?.details.exceeds;
  return problem === null
    ? new UpstreamFailure('upstream_unavailable', 'the response ended without a reply', {
        mayHaveActed: true,
      })
    : new UpstreamFailure('upstream_protocol_error', problem, {
        ...{ mayHaveActed: true, isForReply: true, isOtherJson: failure === null },
        ...(exceeds !== undefined && { exceeds }),
        cause: failure,
      });
}
