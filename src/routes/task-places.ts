/** Where the tasks of a gateway are: who finds them, and what becomes of them when their replica is gone. */
import type { RouteConfig } from '../config/schema.ts';
import { randomId } from '../lib/crypto.ts';
import type { HomeOwnership } from '../model/ownership.ts';
import { SessionSeal } from '../seal/session-seal.ts';
import { TaskStore } from '../tasks/store.ts';
import { TaskIds, type AddressedOwner } from '../tasks/task-ids.ts';
import { Tasks, type TasksOptions } from '../tasks/tasks.ts';
import type { SharedServices } from './shared-services.ts';

/**
 * Where tasks are.
 * - `store`: any replica finds them, and goes on with those of one that is gone
 * - `process`: in this process, the only one that clients reach
 * - `owners`: each at one replica, which its id names. They end with it, so only the server's own legacy tasks are tasks there
 */
export type TaskPlaces =
  | { readonly type: 'store'; readonly homes: HomeOwnership }
  | { readonly type: 'process' }
  | { readonly type: 'owners'; readonly owner: AddressedOwner };

type TaskServices = Pick<TasksOptions, 'calls' | 'promotion' | 'relay'> &
  Pick<SharedServices, 'config' | 'replica' | 'sealKeys' | 'taskQuota' | 'clock' | 'log'>;

/** Decides where the tasks of a gateway are. */
export function taskPlacesOf({
  config,
  replica: { directory, ownership, owner },
  hasSiblings,
}: Pick<SharedServices, 'config' | 'replica' | 'hasSiblings'>): TaskPlaces {
  // Without Redis, workers share a store that no other machine can ask.
  const areFound = config.relay === null || directory !== null;
  if (ownership !== null && areFound) return { type: 'store', homes: ownership };
  if (!hasSiblings) return { type: 'process' };
  const { address } = owner;
  // Only a relay over HTTP does without Redis.
  if (address === undefined) throw new Error('a relay over HTTP has an address');
  return { type: 'owners', owner: { ...owner, address } };
}

/**
 * Creates the tasks of a route.
 * @param earlier those of the route with other settings, which go on
 */
export function createTasks(
  { id: route }: RouteConfig,
  places: TaskPlaces,
  services: TaskServices,
  earlier: Tasks | null = null,
): Tasks {
  const { calls, promotion, relay, config, replica, sealKeys, taskQuota, clock, log } = services;
  const homes = places.type === 'store' ? places.homes : null;
  const owner = places.type === 'owners' ? places.owner : null;
  const { audience } = config.seal;
  const seal = new SessionSeal({ keys: sealKeys, audience, route });
  const ids = new TaskIds(seal, owner);
  if (owner !== null && !ids.fit) {
    log.event('tasks.address_too_long', { route, address: owner.address });
  }
  const options: TasksOptions = {
    route,
    instance: replica.owner.instance,
    calls,
    promotion,
    quota: taskQuota,
    store: homes && new TaskStore(homes, sealKeys.ring('task'), audience),
    relay,
    ids,
    randomHome: randomId,
    clock,
    log,
  };
  return new Tasks(options, earlier);
}
