/** A history is data: calls and kills. All else of a run is noise, which depends on the seed and on names. */
import { Random } from '../engine/random.ts';

/** `twice` asks two questions on the stream of its call, `beside` one on the stream of the session, `plain` none. */
export const TOOLS = ['twice', 'beside', 'plain'] as const;

export interface PlannedCall {
  readonly id: number;
  readonly caller: string;
  readonly atMs: number;
  readonly tool: (typeof TOOLS)[number];
  /** How long the client thinks about a question. */
  readonly thinkMs: number;
  /** How long the tool works. */
  readonly workMs: number;
}

/** It strikes when a client has just been shown a question: a kill at any time finds little. */
export interface PlannedKill {
  /** How many questions were shown before. */
  readonly afterShown: number;
  /** The replica that showed it, or any. */
  readonly victim: 'here' | 'any';
}

export interface History {
  readonly seed: number;
  readonly replicas: number;
  /** Whether the network has no noise. */
  readonly isCalm: boolean;
  readonly calls: readonly PlannedCall[];
  readonly kills: readonly PlannedKill[];
}

const CALLS = 8;
const GAP_MS = 1_750;
const LONGEST_THINK_MS = 4_000;
const WORK_MS = [200, 2_000, 9_000] as const;
const WORK_RANGE_MS = 2_000;
const KILLS_ANY_ONE_IN = 3;

export function historyOf(seed: number, replicas = 3): History {
  const random = new Random(`history:${seed}`);
  const calls = Array.from({ length: CALLS }, (_, id): PlannedCall => {
    const atMs = random.below(CALLS * GAP_MS);
    return {
      id,
      caller: 'ada',
      atMs,
      tool: TOOLS[random.below(TOOLS.length)] ?? 'plain',
      thinkMs: random.below(LONGEST_THINK_MS),
      workMs: (WORK_MS[random.below(WORK_MS.length)] ?? 0) + random.below(WORK_RANGE_MS),
    };
  });
  const kill: PlannedKill = {
    afterShown: random.below(CALLS),
    victim: random.below(KILLS_ANY_ONE_IN) === 0 ? 'any' : 'here',
  };
  return {
    seed,
    replicas,
    isCalm: false,
    calls: calls.toSorted((a, b) => a.atMs - b.atMs),
    kills: replicas > 1 ? [kill] : [],
  };
}

/** Makes a failing history shorter for as long as it `fails`: fewer calls, kills and replicas, no noise, no thinking. */
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

/** Each makes a history simpler in one way, or says that it is so already. */
function simplifications({ calls, kills }: History): ((from: History) => History | null)[] {
  const without = (id: number) => (from: History) => {
    const left = from.calls.filter((call) => call.id !== id);
    return left.length === 0 || left.length === from.calls.length ? null : { ...from, calls: left };
  };
  const withoutKill = (kill: PlannedKill) => (from: History) => {
    return { ...from, kills: from.kills.filter((other) => other !== kill) };
  };
  const withoutThinking = (id: number) => (from: History) => {
    if (!from.calls.some((call) => call.id === id && call.thinkMs > 0)) return null;
    const hasty = from.calls.map((call) => (call.id === id ? { ...call, thinkMs: 0 } : call));
    return { ...from, calls: hasty };
  };
  return [
    ...calls.map(({ id }) => without(id)),
    ...kills.map(withoutKill),
    (from) => (from.replicas > 2 ? { ...from, replicas: from.replicas - 1 } : null),
    (from) => (from.isCalm ? null : { ...from, isCalm: true }),
    ...calls.map(({ id }) => withoutThinking(id)),
  ];
}
