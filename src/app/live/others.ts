/** What the other gateways of a deployment tell the live page, and do for it. They are asked over the relay, while somebody looks. */
import { sleep, type Clock } from '../../lib/clock.ts';
import { requestOfGateway, type RelayedHandle } from '../../model/relay.ts';
import {
  waiterWithoutNotifications,
  type CallReply,
  type EdgeRequest,
} from '../../model/request.ts';
import { livePart, type LivePart } from '../../ops/live/snapshot.ts';
import { stopOrder, type StopOrder } from '../../ops/live/stop.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { PointerOwner } from '../../seal/pointer.ts';
import type { Replica } from '../../model/replica.ts';

/** Parts of a snapshot, and the names of processes that did not reply. */
export interface LiveView {
  readonly parts: readonly LivePart[];
  readonly missing: readonly string[];
}

/** No method of MCP: replicas that do not know them do nothing. */
const LOOK = 'mrtr-gateway/live';
const STOP = 'mrtr-gateway/stop';
/** How long another gateway can take to answer, in ms: less than the primary waits for its worker. */
const LOOK_MS = 800;
const STOP_MS = 8_000;
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

  async look(): Promise<LiveView> {
    const owners = await this.#owners();
    if (owners === null)
      return { parts: [], missing: ['other replicas (Redis does not list them)'] };
    const replies = await Promise.all(owners.map((owner) => this.#ask(owner, LOOK, {}, LOOK_MS)));
    const read = replies.map((reply) => livePart.safeParse(reply));
    const parts = read.flatMap(({ data }) => data ?? []);
    const silent = owners.filter((_, at) => read[at]?.success !== true);
    return { parts, missing: silent.map(({ instance }) => `replica ${instance.slice(0, 6)}`) };
  }

  /** Has a call cancelled, wherever it waits. */
  async stop({ call, by }: StopOrder): Promise<boolean> {
    const owners = (await this.#owners()) ?? [];
    const asked = owners.map((owner) => this.#ask(owner, STOP, { call, by }, STOP_MS));
    return (await Promise.all(asked)).some((reply) => reply?.['isStopped'] === true);
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
      sleep(clock, LOOK_MS).then(() => null),
    ]);
    return (
      owners?.filter(({ instance }) => instance !== owner.instance && !isOwn(instance)) ?? null
    );
  }

  async #ask(
    owner: PointerOwner,
    method: string,
    params: JsonObject,
    withinMs: number,
  ): Promise<JsonObject | null> {
    const { replica, route } = this.#options;
    const relay = replica.relayOf(route() ?? '');
    const closed = AbortSignal.timeout(withinMs);
    const waiter = waiterWithoutNotifications(closed);
    const relayed = await relay?.relay(owner, requestOfGateway(method, params), waiter);
    const reply = relayed?.type === 'replied' ? relayed.reply : null;
    return reply?.kind === 'result' ? reply.result : null;
  }
}

/** What a process does for the live page of its own gateway, and of others. */
export interface LiveProcess {
  /** Collects what the page shows of this process. */
  live(): LivePart;
  /**
   * Cancels a call that waits for its client, if the configuration allows that.
   * @returns false if it does not, or if the call does not wait here
   */
  stop(order: StopOrder): boolean;
}

/** Serves what another gateway asks for its live page. @returns `null` if the request is none of that */
export function serveOthers(
  { method, params }: EdgeRequest,
  process: LiveProcess,
): RelayedHandle | null {
  if (method !== LOOK && method !== STOP) return null;
  const result = (): JsonObject => {
    if (method === LOOK) return { ...process.live() };
    const order = stopOrder.safeParse(params);
    return { isStopped: order.success && process.stop(order.data) };
  };
  const begin = async (): Promise<CallReply> => ({ kind: 'result', result: result() });
  return { begin, sendClientBack: () => {} };
}

/** Asks this process, and the other gateways. */
export async function lookEverywhere(
  process: Pick<LiveProcess, 'live'> & { readonly others: OtherGateways },
): Promise<LiveView> {
  const { parts, missing } = await process.others.look();
  return { parts: [process.live(), ...parts], missing };
}
