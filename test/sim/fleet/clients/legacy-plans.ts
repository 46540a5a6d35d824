/** Sessions of legacy clients, which are data: who opens one, when, and with which calls. */
import { below, choose } from '../../engine/random.ts';
import type { ServerTraits } from '../servers/traits.ts';
import { TOOLS, type Tool } from '../servers/tools.ts';

/** Revisions in which a client can be asked for a form. */
export type LegacyRevision = '2025-11-25' | '2025-06-18';

export interface LegacyCall {
  readonly id: number;
  readonly tool: Tool;
  /** After the session was opened. */
  readonly afterMs: number;
  /** How long the client thinks about a question. */
  readonly thinkMs: number;
  /** How long the tool works. */
  readonly workMs: number;
  /** After how long the client cancels it; `null` for never. */
  readonly cancelsAfterMs: number | null;
}

export interface PlannedSession {
  readonly id: number;
  readonly caller: string;
  readonly atMs: number;
  /** Whether another caller, who knows the id of the session, uses it. */
  readonly isForged: boolean;
  /** Whether the client deletes the session at its end. Otherwise it only closes its connections. */
  readonly isDeleted: boolean;
  /** That its client speaks. */
  readonly revision: LegacyRevision;
  readonly calls: readonly LegacyCall[];
}

/** What a session or a call that was kept does not say. */
export const USUAL_SESSION = { revision: '2025-11-25' } as const;
export const USUAL_LEGACY_CALL = { cancelsAfterMs: null } as const;

type Some<Item> = readonly [Item, ...Item[]];

/** One history in so many has legacy clients. */
const ONE_IN = 5;
const MOST_SESSIONS = 3;
const MOST_CALLS = 3;
const CALLS_WITHIN_MS = 4_000;
const LONGEST_THINK_MS = 4_000;
const WORK_MS = [200, 2_000, 9_000] as const;
const CALLERS: Some<string> = ['ada', 'ada', 'bob'];

/** @param withinMs when the calls of the history are begun */
export function legacyOf(
  seed: number,
  { transport }: ServerTraits,
  withinMs: number,
): PlannedSession[] {
  const name = `legacy:${seed}`;
  if (transport !== 'streamable-http' || below(`${name}:any`, ONE_IN) > 0) return [];
  return Array.from({ length: 1 + below(`${name}:count`, MOST_SESSIONS) }, (_, id) => {
    const session = `${name}:${id}`;
    return {
      id,
      caller: choose(`${session}:caller`, CALLERS),
      atMs: below(`${session}:at`, withinMs),
      isForged: choose(`${session}:forged`, [true, false]),
      isDeleted: choose(`${session}:deleted`, [true, false]),
      ...USUAL_SESSION,
      calls: Array.from({ length: 1 + below(`${session}:calls`, MOST_CALLS) }, (__, nth) =>
        callOf(`${session}:${nth}`, nth),
      ),
    };
  });
}

function callOf(name: string, id: number): LegacyCall {
  return {
    id,
    tool: choose(`${name}:tool`, TOOLS),
    afterMs: below(`${name}:after`, CALLS_WITHIN_MS),
    thinkMs: below(`${name}:think`, LONGEST_THINK_MS),
    workMs: choose(`${name}:work`, WORK_MS),
    ...USUAL_LEGACY_CALL,
  };
}

/** The name of a call of a session. */
export function nameOfLegacy(session: number, call: number): string {
  return `legacy${session}_${call}`;
}

export function isOfLegacy(call: string): boolean {
  return call.startsWith('legacy');
}

/** Each session less, and each less of what is in them. */
export function simplerLegacy(sessions: readonly PlannedSession[]): PlannedSession[][] {
  const instead = (session: PlannedSession, simpler: PlannedSession[]) =>
    sessions.flatMap((other) => (other === session ? simpler : [other]));
  return sessions.flatMap((session) => [
    instead(session, []),
    ...session.calls.map((call) =>
      instead(session, [{ ...session, calls: session.calls.filter((other) => other !== call) }]),
    ),
    ...session.calls
      .filter(({ cancelsAfterMs }) => cancelsAfterMs !== null)
      .map((call) => {
        const patient = { ...call, ...USUAL_LEGACY_CALL };
        const calls = session.calls.map((other) => (other === call ? patient : other));
        return instead(session, [{ ...session, calls }]);
      }),
    ...(session.isForged ? [instead(session, [{ ...session, isForged: false }])] : []),
    ...(session.isDeleted ? [] : [instead(session, [{ ...session, isDeleted: true }])]),
  ]);
}
