/**
 * `subscriptions/listen` in front of a legacy server. Each listener joins a stream that it can share, and
 * stays until its client leaves or the gateway ends it with a result.
 */
import { inBackground } from '../lib/background.ts';
import type { Clock } from '../lib/clock.ts';
import { requestFailure, STOPPING_FOR_REQUEST, TASKS_NOT_DECLARED } from '../model/failures.ts';
import type { CallReply, EdgeRequest, Failure, Waiter } from '../model/request.ts';
import { sessionOwnerOf } from '../sessions/session-owner.ts';
import { failureOfRequest } from '../model/upstream-failures.ts';
import type { Log } from '../ops/log.ts';
import { metaMember } from '../protocol/translate/edge-result.ts';
import type { ClientRequestId } from '../protocol/ids.ts';
import type { JsonObject } from '../protocol/json.ts';
import { Meta } from '../protocol/meta.ts';
import type { SessionPool } from '../sessions/session-pool.ts';
import { asUpstreamFailure, type UpstreamFailure } from '../model/upstream-failure.ts';
import type { Quota } from '../lib/counts.ts';
import { isEmpty, readFilter, readTaskIds, Listener } from './filter.ts';
import { SharedStream } from './shared-stream.ts';

export interface SubscriptionsOptions {
  readonly route: string;
  readonly pool: Pick<SessionPool, 'canListen' | 'leaseToListen' | 'sharingKey'>;
  /** Shared by all routes. */
  readonly quota: Quota;
  /** The tasks that listeners can follow; `null` if the gateway offers none. */
  readonly tasks: FollowedTasks | null;
  /** URIs of one listener beyond this number are not acknowledged. */
  readonly maxResourcesPerListener: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** The tasks of a route, as listeners follow them. */
export interface FollowedTasks {
  /** Tells whether there is such a task for the caller. A failure says that this cannot be known now. */
  has(request: EdgeRequest, taskId: string): Promise<boolean | Failure>;
  /**
   * Tells the params of `notifications/tasks`, for what the task is now and each time that it changes.
   * @returns a function that ends that
   */
  follow(request: EdgeRequest, taskId: string, tell: (params: JsonObject) => void): () => void;
}

/** The client's side of a listener. */
export interface ListenWaiter extends Waiter {
  /** Resolves when the client has the whole response, or has left. */
  readonly over: Promise<void>;
}

export class Subscriptions {
  readonly #options: SubscriptionsOptions;
  readonly #streams = new Map<string, SharedStream>();
  readonly #listeners = new Set<Listener>();
  #alone = 0;
  #stopping = false;

  constructor(options: SubscriptionsOptions) {
    this.#options = options;
  }

  /**
   * Serves one listener until it ends. Never throws because of the upstream.
   * @param id of the request, which is the id of the subscription (subscriptions, "Receiving Notifications")
   * @param untilRefused calls back once the caller would be refused, and returns a function that ends that
   * @returns the result that ends the stream, or the failure
   */
  async listen(
    request: EdgeRequest,
    id: ClientRequestId,
    waiter: ListenWaiter,
    untilRefused: (end: () => void) => () => void,
  ): Promise<CallReply> {
    if (this.#stopping) return REFUSED;
    const { quota, maxResourcesPerListener } = this.#options;
    const giveBack = quota.take(request.caller.principalKey);
    if (giveBack === null) return TOO_MANY;
    // The place is taken until the connection closes.
    inBackground(waiter.over.then(giveBack));
    const tasks = await this.#tasksOf(request);
    if ('error' in tasks) return { kind: 'failed', failure: tasks };
    // While its tasks were looked up, all listeners may have been ended.
    if (this.#stopping) return REFUSED;
    const filter = readFilter(request.params, maxResourcesPerListener);
    const listener = new Listener(id, filter, waiter, tasks);
    this.#listeners.add(listener);
    // The client listens again with another token.
    const forget = untilRefused(() => listener.end(REFUSED_CALLER));
    const stream = this.#options.pool.canListen ? this.#streamFor(request) : null;
    try {
      // Nothing can be heard where the server has one session, which its callers take turns to have.
      if (stream === null) listener.acknowledge(NOTHING);
      const serverInfo = stream === null ? null : await join(stream, listener);
      for (const task of tasks) this.#follow(request, task, listener);
      const { acknowledged } = listener;
      if (acknowledged === null) return REFUSED;
      // No notification can follow, so the listener needs no stream.
      if (isEmpty(acknowledged)) stream?.leave(listener);
      await listener.ended;
      return endResult(id, serverInfo, listener.reason);
    } catch (error) {
      const failure = asUpstreamFailure(error, false);
      this.#report(failure);
      return { kind: 'failed', failure: failureOfRequest(failure) };
    } finally {
      forget();
      this.#listeners.delete(listener);
      stream?.leave(listener);
    }
  }

  /** Refuses new listeners, and ends the others with a result. */
  endAll(): void {
    this.#stopping = true;
    for (const listener of this.#listeners) listener.end();
  }

  /** @returns the ids that the listener asks for and that the caller has, or why the listener is refused */
  async #tasksOf(request: EdgeRequest): Promise<readonly string[] | Failure> {
    const { tasks, maxResourcesPerListener } = this.#options;
    const asked = readTaskIds(request.params);
    if (tasks === null || asked.length === 0) return [];
    if (request.profile.tasks !== true) return TASKS_NOT_DECLARED;
    const ids = asked.slice(0, maxResourcesPerListener);
    const known = await Promise.all(ids.map((id) => tasks.has(request, id)));
    // Without the task in its acknowledgement, the client would hear nothing of it, although it may be there.
    const unsure = known.find((one) => typeof one === 'object');
    return unsure ?? ids.filter((_, index) => known[index] === true);
  }

  #follow(request: EdgeRequest, taskId: string, listener: Listener): void {
    const tell = (params: JsonObject) => listener.tell('notifications/tasks', params);
    const stop = this.#options.tasks?.follow(request, taskId, tell);
    inBackground(listener.ended.then(stop));
  }

  #streamFor(request: EdgeRequest): SharedStream {
    const { pool, clock } = this.#options;
    const owner = sessionOwnerOf(request);
    // A caller without a sharing key gets a stream of its own.
    const key = pool.sharingKey(owner) ?? `alone-${(this.#alone += 1)}`;
    const known = this.#streams.get(key);
    if (known !== undefined) return known;
    const stream = new SharedStream({
      lease: (onReplaced) => pool.leaseToListen(owner, onReplaced),
      headers: owner.headers,
      clock,
      onTrouble: (failure) => this.#report(failure),
      onEnd: () => this.#streams.delete(key),
    });
    this.#streams.set(key, stream);
    return stream;
  }

  #report({ code, message }: UpstreamFailure): void {
    const { log, route } = this.#options;
    const method = 'subscriptions/listen';
    log.event('upstream.failed', { route, call: null, method, code, problem: message });
  }
}

/** Joins the stream, and stops waiting if the listener ends first. */
async function join(stream: SharedStream, listener: Listener): Promise<JsonObject | null> {
  const joining = stream.join(listener);
  joining.catch(() => {});
  return Promise.race([joining, listener.ended.then(() => null)]);
}

/** Why a listener ends whose caller would be refused now. */
const REFUSED_CALLER = 'token_not_valid';

/**
 * Builds the result that ends a subscription (subscriptions, "Graceful Closure").
 * @param reason why; `null` if there is none that the client could do something about
 */
function endResult(
  id: ClientRequestId,
  serverInfo: JsonObject | null,
  reason: string | null,
): CallReply {
  const own = { [Meta.subscriptionId]: id, ...(reason !== null && { [Meta.reason]: reason }) };
  const meta = metaMember(own, serverInfo);
  return { kind: 'result', result: { resultType: 'complete', ...meta } };
}

const NOTHING = readFilter({}, 0);

const TOO_MANY: CallReply = {
  kind: 'failed',
  failure: requestFailure(
    'too_many_listeners',
    'The gateway is at its limit of listeners; close one and try again',
  ),
};
const REFUSED: CallReply = { kind: 'failed', failure: STOPPING_FOR_REQUEST };
