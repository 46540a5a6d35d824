/**
 * The ids of tasks, as clients see them: sealed for the principal and the route. Where replicas share no store, they also
 * hold the address of the replica that has the task.
 */
import { homeId, type HomeId } from '../protocol/ids.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import type { SessionSeal } from '../seal/session-seal.ts';
import type { Caller } from '../model/request.ts';

/** What tells the homes of tasks from others in the store. */
const PREFIX = 'task:';
/** Ids travel in a header (`Mcp-Name`), and in logs and URLs of clients. */
const MAX_ID_LENGTH = 200;
/** The ids of homes and instances are random numbers of this length. */
const RANDOM_BYTES = 16;

/** A replica that others reach over the relay. */
export type AddressedOwner = PointerOwner & { readonly address: string };

/** The task that an id names. */
export interface TaskName {
  readonly home: HomeId;
  /** The replica that has it; `null` if the ids do not say. */
  readonly owner: AddressedOwner | null;
}

export class TaskIds {
  readonly #seal: SessionSeal;
  readonly #owner: AddressedOwner | null;

  /** @param owner this replica, if ids are to say which one has the task */
  constructor(seal: SessionSeal, owner: AddressedOwner | null) {
    this.#seal = seal;
    this.#owner = owner;
  }

  get namesOwners(): boolean {
    return this.#owner !== null;
  }

  /** Whether ids are short enough: they have one length. */
  get fit(): boolean {
    const anyHome = TaskIds.homeOf(Buffer.alloc(RANDOM_BYTES).toString('base64url'));
    return this.idOf(anyHome, { principal: null }) !== null;
  }

  /** Returns the home of a new task. @param random 128 bits, base64url */
  static homeOf(random: string): HomeId {
    return homeId(`${PREFIX}${random}`);
  }

  /** Returns the id of a task that is here. It is bound to the principal ("Auth binding"). @returns `null` if it is too long */
  idOf(home: HomeId, { principal }: Pick<Caller, 'principal'>): string | null {
    const random = home.slice(PREFIX.length);
    const id = this.#seal.seal('task', this.#write(random), principal ?? '');
    return id === null || id.length > MAX_ID_LENGTH ? null : id;
  }

  /** Reads an id. @returns `null` if it is not one of this principal */
  nameOf(taskId: string, { principal }: Pick<Caller, 'principal'>): TaskName | null {
    const content = this.#seal.open('task', taskId, principal ?? '');
    return content === null ? null : this.#read(content);
  }

  #write(random: string): string {
    if (this.#owner === null) return random;
    const { instance, address } = this.#owner;
    const ids = [random, instance].map((id) => Buffer.from(id, 'base64url'));
    return Buffer.concat([...ids, Buffer.from(address, 'latin1')]).toString('latin1');
  }

  #read(content: string): TaskName | null {
    if (this.#owner === null) return { home: TaskIds.homeOf(content), owner: null };
    const bytes = Buffer.from(content, 'latin1');
    const instance = bytes.toString('base64url', RANDOM_BYTES, 2 * RANDOM_BYTES);
    const address = bytes.toString('latin1', 2 * RANDOM_BYTES);
    if (!URL.canParse(address)) return null;
    const home = TaskIds.homeOf(bytes.toString('base64url', 0, RANDOM_BYTES));
    return { home, owner: { id: instance, instance, address } };
  }
}
