/** Starts a process of a modern server, and finds out that it is one. */
import type { Clock } from '../../lib/clock.ts';
import type { ChannelListener, DroppedMessage, PermittedChannel } from '../../model/channel.ts';
import { asUpstreamFailure, protocolError, UpstreamFailure } from '../../model/upstream-failure.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { JsonRpcMessage, JsonRpcReply } from '../../protocol/json-rpc.ts';
import { modernCapabilities, ownMeta } from '../discovery/modern-side.ts';
import { oneLine } from '../transport/stdio/one-line.ts';

export interface StartOptions {
  readonly clock: Clock;
  /** How long a process has to reply when it has started, in ms. */
  readonly startTimeoutMs: number;
  /** The `clientInfo` of the gateway's own requests. */
  readonly gatewayInfo: JsonObject;
  /** Called with the result of `server/discover` of each process; with `null` if one turns out not to be modern. */
  readonly onDiscovered: (result: JsonObject | null) => void;
  /** Called when a process ends, or says nothing for a while, before it has said what it is: legacy servers can do either. */
  readonly onSilent: () => void;
}

export interface StartedListener {
  received(message: JsonRpcMessage): void;
  dropped(message: DroppedMessage, failure: UpstreamFailure): void;
  /** A process that had started has ended. */
  crashed(failure: UpstreamFailure): void;
  /** The process ends. @param ended resolves when nothing of it is left */
  ending(ended: Promise<void>): void;
}

/** How long a process has, in ms, until it is doubted that it is modern. Some take longer to start, and are waited for all the same. */
const SILENT_MS = 5_000;

/** None reach a process. */
export const NO_HEADERS = {};

/**
 * Starts a process, and asks it what it is before anything else: so it is certain of the next request whether a process that ends
 * can have acted on it ("Backward Compatibility").
 * @param id of the request that asks
 * @throws UpstreamFailure if it does not start, or is no modern server
 */
export async function startProcess(
  open: (listener: ChannelListener) => Promise<PermittedChannel>,
  id: number,
  { clock, startTimeoutMs, gatewayInfo, onDiscovered, onSilent }: StartOptions,
  listener: StartedListener,
): Promise<PermittedChannel> {
  const discovered = Promise.withResolvers<JsonRpcReply>();
  // What it rejects with is told to who waits for it.
  discovered.promise.catch(() => {});
  let isStarting = true;
  let end = null as UpstreamFailure | null;
  const channel: PermittedChannel = await open({
    messages: (messages) => {
      for (const message of messages) {
        if (message.type === 'response' && message.id === id) discovered.resolve(message.reply);
        else listener.received(message);
      }
    },
    dropped: (message, failure) => {
      if (message.type === 'response' && message.id === id) discovered.reject(failure);
      else listener.dropped(message, failure);
    },
    ended: (failure) => {
      end = failure.with({ mayHaveActed: false });
      discovered.reject(end);
      // Its permit is free when nothing of it is left.
      listener.ending(channel.end());
      if (isStarting) onSilent();
      else listener.crashed(failure);
    },
  });
  const silent = clock.setTimer(SILENT_MS, onSilent);
  const late = clock.setTimer(startTimeoutMs, () => discovered.reject(tooLate(startTimeoutMs)));
  try {
    channel.use('request');
    const _meta = ownMeta(gatewayInfo);
    const asked = { jsonrpc: '2.0', id, method: 'server/discover', params: { _meta } };
    await channel.send(oneLine(asked), NO_HEADERS);
    const reply = await discovered.promise;
    silent.cancel();
    // It can have ended right after it.
    if (end !== null) throw end;
    const isModern = modernCapabilities(reply) !== null;
    if (!isModern) onDiscovered(null);
    if (!isModern) throw protocolError('it does not speak 2026-07-28');
    if ('result' in reply) onDiscovered(reply.result);
    isStarting = false;
    return channel;
  } catch (error) {
    listener.ending(channel.end());
    throw asUpstreamFailure(error, false);
  } finally {
    silent.cancel();
    late.cancel();
  }
}

function tooLate(timeoutMs: number): UpstreamFailure {
  const problem = `no reply to server/discover within ${timeoutMs} ms`;
  return new UpstreamFailure('upstream_timeout', problem, { mayHaveActed: false });
}
