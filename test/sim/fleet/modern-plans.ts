/** Histories of legacy clients in front of a server of 2026-07-28: the other direction. */
import { below, choose } from '../engine/random.ts';
import type { PlannedSession } from './clients/legacy-plans.ts';
import { faultsOf, isOfProcess, type PlannedFault } from './faults.ts';
import type { History } from './history.ts';
import { isOverStdio, PLAIN_SERVER, type ServerTraits } from './servers/traits.ts';
import { TOOLS, type Tool } from './servers/tools.ts';

const MOST_FAULTS = 4;
const LATEST_NTH = 6;
const MOST_SESSIONS = 4;
const MOST_CALLS = 4;
const BEGIN_WITHIN_MS = 8_000;
const CALLS_WITHIN_MS = 6_000;
const LONGEST_THINK_MS = 4_000;
const LATEST_CANCEL_MS = 3_000;
const LONGEST_RUN_MS = 14_000;
const WORK_MS = [200, 2_000, 9_000] as const;
/** A tool that has asked waits for the answer: its request is over. */
const MODERN_TOOLS = TOOLS.filter((tool) => tool !== 'abandons') as [Tool, ...Tool[]];

/** @returns the history with its faults and settings, and nothing else of it. @param name of what is drawn */
export function behindModern(history: History, name: string): History {
  const { gateway } = history;
  const server = traitsOf(`${name}:server`);
  return {
    ...history,
    // Nothing is parked.
    gateway: { ...gateway, release: 'never', maxParked: null, pingInterval: null, maxHold: null },
    server,
    listeners: [],
    calls: [],
    legacy: sessionsOf(name),
    faults: faultsFor(history, server),
  };
}

function faultsFor(
  { seed, replicas, gateway, hasStore, faults }: History,
  server: ServerTraits,
): readonly PlannedFault[] {
  if (!isOverStdio(server)) return faults.filter(({ kind }) => !isOfProcess(kind));
  const isFit = ({ kind }: PlannedFault) =>
    (gateway.identity === 'none' || kind !== 'clock') && (hasStore || !kind.startsWith('store-'));
  const counts = { below: MOST_FAULTS + 1, latestNth: LATEST_NTH, restarts: 0 };
  return faultsOf(seed, { replicas, isOverStdio: true }, counts).filter(isFit);
}

function traitsOf(name: string): ServerTraits {
  const oneIn = (count: number, why: string) => below(`${name}:${why}`, count) === 0;
  const number = (why: string, end: number) => below(`${name}:${why}`, end);
  const isProcess = oneIn(3, 'stdio');
  return {
    ...PLAIN_SERVER,
    transport: isProcess ? 'modern-stdio' : 'modern',
    hasStore: false,
    repliesWithJson: oneIn(3, 'json'),
    takesAnswersMs: oneIn(4, 'takes-slowly') ? number('takes-answers', 1_500) : 0,
    reports: choose(`${name}:reports`, ['burst', 'at-once', 'steadily']),
    draws: oneIn(8, 'draws'),
    forgetsAtMs: !isProcess && oneIn(6, 'forgets') ? number('forgets-at', LONGEST_RUN_MS) : null,
    dallies: choose(`${name}:dallies`, [0, 0, 1, 3]),
    wantsHeaders: !isProcess && oneIn(3, 'headers'),
    endsListeningMs: oneIn(4, 'ends-listening') ? 500 + number('ends-after', 4_000) : null,
  };
}

function sessionsOf(name: string): PlannedSession[] {
  const tools = [0, 1, 2].map((nth) => choose(`${name}:tool:${nth}`, MODERN_TOOLS));
  return Array.from({ length: 1 + below(`${name}:count`, MOST_SESSIONS) }, (_, id) => {
    const session = `${name}:${id}`;
    return {
      id,
      caller: choose(`${session}:caller`, ['ada', 'ada', 'bob']),
      atMs: below(`${session}:at`, BEGIN_WITHIN_MS),
      isForged: choose(`${session}:forged`, [true, false]),
      isDeleted: choose(`${session}:deleted`, [true, false]),
      revision: choose(`${session}:revision`, ['2025-11-25', '2025-11-25', '2025-06-18']),
      calls: Array.from({ length: 1 + below(`${session}:calls`, MOST_CALLS) }, (__, nth) => {
        const call = `${session}:${nth}`;
        return {
          id: nth,
          tool: choose<Tool>(`${call}:tool`, [tools[0] ?? 'turns', ...tools]),
          afterMs: below(`${call}:after`, CALLS_WITHIN_MS),
          thinkMs: below(`${call}:think`, LONGEST_THINK_MS),
          workMs: choose(`${call}:work`, WORK_MS),
          cancelsAfterMs:
            below(`${call}:cancels`, 8) === 0 ? below(`${call}:after-ms`, LATEST_CANCEL_MS) : null,
        };
      }),
    };
  });
}
