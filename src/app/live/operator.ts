/**
 * What the operator asks of all processes of a deployment: what they have, for the live page, or to cancel a call. Other gateways
 * are asked over the relay.
 */
import { z } from 'zod';
import { sleep, type Clock } from '../../lib/clock.ts';
import { requestOfGateway, type RelayedHandle } from '../../model/relay.ts';
import {
  waiterWithoutNotifications,
  type CallReply,
  type EdgeRequest,
} from '../../model/request.ts';
import { livePart } from '../../ops/live/snapshot.ts';
import { stopOrder } from '../../ops/live/stop.ts';
import type { PointerOwner } from '../../seal/pointer.ts';
import type { Replica } from '../../model/replica.ts';

const operatorRequest = z.discriminatedUnion('type', [
  z.object({ type: z.literal('look') }),
  stopOrder.extend({ type: z.literal('stop') }),
]);

const operatorReply = z.object({
  /** What each process has that was looked at. */
  parts: z.array(livePart),
  /** The names of processes that did not reply. */
  missing: z.array(z.string()),
  /** Whether one of them had the call, and cancels it. */
  isStopped: z.boolean(),
});

export type OperatorRequest = Readonly<z.infer<typeof operatorRequest>>;
export type OperatorReply = Readonly<z.infer<typeof operatorReply>>;

export const NOTHING: OperatorReply = { parts: [], missing: [], isStopped: false };

export function mergeReplies(replies: readonly OperatorReply[]): OperatorReply {
  return {
    parts: replies.flatMap(({ parts }) => parts),
    missing: replies.flatMap(({ missing }) => missing),
    isStopped: replies.some(({ isStopped }) => isStopped),
  };
}

/** No method of MCP: replicas that do not know it do nothing. */
const METHOD = 'mrtr-gateway/operator';
/** How long another gateway can take to answer, in ms: less than the primary waits for its worker. */
const WAIT_MS = { look: 800, stop: 8_000 };
/** How long a list of replicas is used, in ms. */
const LIST_MS = 10_000;

export interface OtherGatewaysOptions {
  readonly replica: Replica;
  /** Whether a process belongs to this gateway, and is asked by its primary. */
  readonly isOwn: (instance: string) => boolean;
  /** A route that all replicas have, since the relay is one of routes. */
  readonly route: () => string | undefined;
  readonly clock: Clock;
}

export class OtherGateways {
  readonly #options: OtherGatewaysOptions;
  #list: { readonly owners: Promise<PointerOwner[]>; readonly atMs: number } | null = null;

  constructor(options: OtherGatewaysOptions) {
    this.#options = options;
  }

  async serve(asked: OperatorRequest): Promise<OperatorReply> {
    const owners = await this.#owners();
    if (owners === null) {
      return { ...NOTHING, missing: ['other replicas (Redis does not list them)'] };
    }
    return mergeReplies(await Promise.all(owners.map((owner) => this.#ask(owner, asked))));
  }

  /** @returns `null` if the store cannot say who they are */
  async #owners(): Promise<PointerOwner[] | null> {
    const { replica, isOwn, clock } = this.#options;
    const { directory, owner } = replica;
    if (directory === null) return [];
    const atMs = clock.elapsed();
    if (this.#list === null || atMs - this.#list.atMs >= LIST_MS) {
      this.#list = { owners: directory.replicas(), atMs };
    }
    const owners = await Promise.race([
      this.#list.owners.catch(() => null),
      sleep(clock, WAIT_MS.look).then(() => null),
    ]);
    return (
      owners?.filter(({ instance }) => instance !== owner.instance && !isOwn(instance)) ?? null
    );
  }

  async #ask(owner: PointerOwner, asked: OperatorRequest): Promise<OperatorReply> {
    const { replica, route } = this.#options;
    const relay = replica.relayOf(route() ?? '');
    const waiter = waiterWithoutNotifications(AbortSignal.timeout(WAIT_MS[asked.type]));
    const relayed = await relay?.relay(owner, requestOfGateway(METHOD, { ...asked }), waiter);
    const reply = relayed?.type === 'replied' ? relayed.reply : null;
    const { data } = operatorReply.safeParse(reply?.kind === 'result' ? reply.result : null);
    return data ?? { ...NOTHING, missing: [`replica ${owner.instance.slice(0, 6)}`] };
  }
}

/** What a process does for the operator. */
export interface OperatedProcess {
  /** Looks at what this process has, or cancels a call that waits here, if the configuration allows that. */
  serveOperator(asked: OperatorRequest): OperatorReply;
}

/** Serves what another gateway asks for its operator. @returns `null` if the request is none of that */
export function serveOthers(
  { method, params }: EdgeRequest,
  process: OperatedProcess,
): RelayedHandle | null {
  if (method !== METHOD) return null;
  const begin = async (): Promise<CallReply> => {
    const { data: asked } = operatorRequest.safeParse(params);
    const reply = asked === undefined ? NOTHING : process.serveOperator(asked);
    return { kind: 'result', result: { ...reply } };
  };
  return { begin, sendClientBack: () => {} };
}

/** Asks this process, and the other gateways. */
export async function serveEverywhere(
  process: OperatedProcess & { readonly others: OtherGateways },
  asked: OperatorRequest,
): Promise<OperatorReply> {
  const own = process.serveOperator(asked);
  return own.isStopped ? own : mergeReplies([own, await process.others.serve(asked)]);
}
