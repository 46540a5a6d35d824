/** A history is data: calls and faults. All else of a run is noise, which depends on the seed and on names. */
import { below, choose } from '../engine/random.ts';
import { type Habits, habitsOf, PLAIN_HABITS, simplerHabits } from './clients/habits.ts';
import type { DialectName } from '../../../src/dialects/dialects.ts';
import { dialectOf } from './clients/dialects.ts';
import { legacyOf, type PlannedSession, simplerLegacy } from './clients/legacy-plans.ts';
import { type FaultCounts, faultsOf, type PlannedFault } from './faults.ts';
import { type GatewaySettings, settingsOf, simplerSettings } from './settings.ts';
import { type ServerTraits, simplerServers, traitsOf } from './servers/traits.ts';
import { TOOLS, type Tool } from './servers/tools.ts';
import { withTheme } from './themes.ts';
import { withWorkers } from './worker-plans.ts';

export interface PlannedCall {
  readonly id: number;
  readonly caller: string;
  readonly atMs: number;
  readonly tool: Tool;
  /** How long the client thinks about a question. */
  readonly thinkMs: number;
  /** How long the tool works. */
  readonly workMs: number;
  /** How long the client waits for the response to a retry before it tries elsewhere. */
  readonly patienceMs: number;
  /** Whether the client sends each retry once more when it has the outcome. */
  readonly isDoubled: boolean;
  readonly habits: Habits;
  /** The wire, if it is not that of the final revision. */
  readonly dialect: DialectName | null;
}

export interface History {
  readonly seed: number;
  readonly replicas: number;
  /** Whether the network has no noise. */
  readonly isCalm: boolean;
  /** How replicas reach each other. */
  readonly relay: 'http' | 'redis';
  /** How many processes a gateway has for its clients. */
  readonly workers: number;
  /** Whether there is a Redis. Only the workers of one gateway do without. */
  readonly hasStore: boolean;
  readonly gateway: GatewaySettings;
  readonly server: ServerTraits;
  /** The callers that listen to changes of the tools. */
  readonly listeners: readonly string[];
  /** The sessions of legacy clients. */
  readonly legacy: readonly PlannedSession[];
  readonly calls: readonly PlannedCall[];
  readonly faults: readonly PlannedFault[];
}

type Some<Item> = readonly [Item, ...Item[]];

interface KindsOfCalls {
  readonly tools: Some<Tool>;
  readonly callers: Some<string>;
  readonly hasHabits: boolean;
  /** Whether retries come twice. Each of them resumes a call that was released. */
  readonly hasRepeats: boolean;
}

interface Size {
  readonly calls: number;
  /** How far apart calls begin, on the average. */
  readonly gapMs: number;
  readonly callers: Some<Some<string>>;
  readonly faults: FaultCounts;
}

/** How much is in a history. */
const SIZES = {
  short: {
    calls: 8,
    gapMs: 1_750,
    callers: [['ada'], ['ada'], ['ada', 'ada', 'ada', 'bob']],
    faults: { below: 5, latestNth: 6, restarts: 0 },
  },
  long: {
    calls: 200,
    gapMs: 450,
    callers: [['ada', 'bob', 'carol', 'dave']],
    faults: { below: 12, latestNth: 150, restarts: 5 },
  },
} satisfies Record<string, Size>;

export interface SizeOfHistory {
  readonly replicas?: number;
  readonly size?: keyof typeof SIZES;
}

/** Each has its own process over stdio, and often one call in it. */
const MANY_CALLERS: Some<string> = ['ada', 'bob', 'carol', 'dave', 'erin', 'frank', 'grace'];
/** The number of the first of the last calls. */
const LAST_CALLS = 1_000;
const LISTENERS: Some<readonly string[]> = [[], ['ada'], ['ada', 'ada', 'bob']];
/** Of so many calls, one wants what is logged, where the server logs. */
const WANTS_LOG_ONE_IN = 3;
const LONGEST_THINK_MS = 4_000;
const WORK_MS = [200, 2_000, 9_000] as const;
const WORK_RANGE_MS = 2_000;
export const PATIENT_MS = 100_000;
/** Longer than what shows that a replica is dead: who gives up earlier each time never gets an answer. */
const PATIENCE_MS = [PATIENT_MS, PATIENT_MS, 5_000, 8_000] as const;

export function historyOf(
  seed: number,
  { replicas: most = 3, size = 'short' }: SizeOfHistory = {},
): History {
  const name = `history:${seed}`;
  const { calls: count, gapMs, callers, faults }: Size = SIZES[size];
  // A history has few kinds of calls, so that each of them often meets itself and each other.
  const server = traitsOf(seed);
  const isOverStdio = server.transport === 'stdio';
  // Nothing moves from one process to another there, so that one is enough for most of what can happen.
  const isSmall = isOverStdio && size === 'short';
  const replicas = isSmall ? 1 + below(`${name}:replicas`, most) : most;
  const gateway = settingsOf(seed);
  const tools = toolsOf(server);
  const tool = (nth: number) => choose(`${name}:tool:${nth}`, tools);
  const kinds: KindsOfCalls = {
    tools: [tool(0), tool(1), tool(2)],
    callers: choose(`${name}:callers`, isSmall ? [...callers, MANY_CALLERS] : callers),
    hasHabits: choose(`${name}:habits`, [true, false]),
    hasRepeats: gateway.release === 'never',
  };
  const calls = Array.from({ length: count }, (_, id) => {
    const call = callOf(`${name}:${id}`, id, kinds);
    const wantsLog = server.sdk !== null && below(`${name}:${id}:log`, WANTS_LOG_ONE_IN) === 0;
    return {
      ...call,
      habits: { ...call.habits, wantsLog },
      atMs: below(`${name}:${id}:at`, count * gapMs),
      dialect: dialectOf(seed, `${name}:${id}`),
    };
  });
  const drawn: History = {
    seed,
    replicas,
    isCalm: false,
    relay: choose(`${name}:relay`, ['http', 'http', 'redis']),
    workers: 1,
    hasStore: true,
    gateway,
    server,
    listeners: choose(`${name}:listeners`, LISTENERS),
    legacy: size === 'short' ? legacyOf(seed, server, count * gapMs) : [],
    calls: calls.toSorted((a, b) => a.atMs - b.atMs),
    // A replica whose clock is wrong refuses the tokens that callers have.
    faults: faultsOf(seed, { replicas, isOverStdio }, faults).filter(
      ({ kind }) => gateway.identity === 'none' || kind !== 'clock',
    ),
  };
  return size === 'short' && most > 2 ? withTheme(withWorkers(drawn)) : drawn;
}

/** Whose question it is cannot be told if it names no call, and its tool does not wait for the answer. */
function toolsOf({ transport }: ServerTraits): Some<Tool> {
  if (transport === 'streamable-http') return TOOLS;
  return TOOLS.filter((tool) => tool !== 'abandons') as [Tool, ...Tool[]];
}

function callOf(
  name: string,
  id: number,
  kinds: KindsOfCalls,
): Omit<PlannedCall, 'atMs' | 'dialect'> {
  const habits = kinds.hasHabits ? habitsOf(name) : PLAIN_HABITS;
  return {
    id,
    caller: choose(`${name}:caller`, kinds.callers),
    tool: choose(`${name}:tool`, kinds.tools),
    thinkMs: below(`${name}:think`, LONGEST_THINK_MS),
    workMs: choose(`${name}:work`, WORK_MS) + below(`${name}:more-work`, WORK_RANGE_MS),
    patienceMs: choose(`${name}:patience`, PATIENCE_MS),
    isDoubled: kinds.hasRepeats && choose(`${name}:doubled`, [false, false, true]),
    habits: kinds.hasRepeats
      ? habits
      : { ...habits, doubles: false, isConfused: false, takesTasks: false, insists: false },
  };
}

/** One more call of each caller, when all is healed and nothing is held any more: it gets its result. */
export function lastCallsOf({ calls, server }: History): PlannedCall[] {
  return [...new Set(calls.map(({ caller }) => caller))].map((caller, nth) => ({
    id: LAST_CALLS + nth,
    caller,
    atMs: 0,
    // What is asked beside a call can be that of one that was cancelled, and is declined then.
    tool: server.transport === 'streamable-http' ? 'turns' : 'plain',
    thinkMs: 0,
    workMs: 0,
    patienceMs: PATIENT_MS,
    isDoubled: false,
    habits: PLAIN_HABITS,
    dialect: null,
  }));
}

/** Makes a failing history shorter for as long as it `fails`: fewer calls, faults and replicas, no noise, no thinking. */
export function shorten(history: History, fails: (shorter: History) => boolean): History {
  let best = history;
  for (let isShorter = true; isShorter;) {
    isShorter = false;
    for (const shorter of simplifications(best)) {
      const candidate = shorter(best);
      if (candidate === null || !fails(candidate)) continue;
      best = candidate;
      isShorter = true;
    }
  }
  return best;
}

type Simpler = (from: History) => History | null;

/** Each makes a history simpler in one way, or says that it is so already. */
function simplifications({ calls, faults, server, gateway, legacy }: History): Simpler[] {
  const without = (ids: readonly number[]) => (from: History) => {
    const left = from.calls.filter(({ id }) => !ids.includes(id));
    return left.length === 0 || left.length === from.calls.length ? null : { ...from, calls: left };
  };
  const withoutFault = (ids: readonly number[]) => (from: History) => {
    const left = from.faults.filter(({ id }) => !ids.includes(id));
    return left.length === from.faults.length ? null : { ...from, faults: left };
  };
  return [
    ...partsOf(calls.map(({ id }) => id)).map(without),
    ...partsOf(faults.map(({ id }) => id)).map(withoutFault),
    (from) => (from.replicas > 2 ? { ...from, replicas: from.replicas - 1 } : null),
    (from) => (from.isCalm ? null : { ...from, isCalm: true }),
    (from) => (from.listeners.length === 0 ? null : { ...from, listeners: [] }),
    ...simplerLegacy(legacy).map((simpler) => (from: History) => {
      return from.legacy === legacy ? { ...from, legacy: simpler } : null;
    }),
    (from) => (from.workers === 1 ? null : { ...from, workers: 1, hasStore: true }),
    (from) => (from.relay === 'http' ? null : { ...from, relay: 'http' }),
    ...simplerSettings(gateway).map((simpler) => (from: History) => {
      return from.gateway === gateway ? { ...from, gateway: simpler } : null;
    }),
    ...simplerServers(server).map((simpler) => (from: History) => {
      return from.server === server ? { ...from, server: simpler } : null;
    }),
    ...calls.flatMap(({ id, habits }) => [
      ...simplerHabits(habits).map((simpler) => ofCall(id, { habits: simpler })),
      ofCall(id, { caller: 'ada' }),
      ofCall(id, { dialect: null }),
      ofCall(id, { thinkMs: 0 }),
      ofCall(id, { isDoubled: false }),
      ofCall(id, { patienceMs: PATIENT_MS }),
    ]),
    ...faults.flatMap(({ id }) => [
      ofFault(id, { afterMs: 0 }),
      ofFault(id, { restartMs: null }),
      ofFault(id, { where: 'here' }),
    ]),
  ];
}

/** The halves, the quarters, and so on, to the single ones. */
function partsOf(ids: readonly number[]): number[][] {
  const parts: number[][] = [];
  for (let size = Math.ceil(ids.length / 2); size > 0; size = size > 1 ? Math.ceil(size / 2) : 0) {
    for (let at = 0; at < ids.length; at += size) parts.push(ids.slice(at, at + size));
  }
  return parts;
}

function ofCall(id: number, simpler: Partial<PlannedCall>): Simpler {
  return (from) => {
    const calls = changed(from.calls, id, simpler);
    return calls === null ? null : { ...from, calls };
  };
}

function ofFault(id: number, simpler: Partial<PlannedFault>): Simpler {
  return (from) => {
    const faults = changed(from.faults, id, simpler);
    return faults === null ? null : { ...from, faults };
  };
}

/** @returns `null` if nothing would change */
function changed<Item extends { readonly id: number }>(
  items: readonly Item[],
  id: number,
  simpler: Partial<Item>,
): Item[] | null {
  const item = items.find((other) => other.id === id);
  if (item === undefined) return null;
  const after = { ...item, ...simpler };
  if (JSON.stringify(after) === JSON.stringify(item)) return null;
  return items.map((other) => (other === item ? after : other));
}
