/** What may become of the calls of a history, and of what they asked. */
import type { Outcome } from './client.ts';
import { isGentle, isOfProcess } from './faults.ts';
import { type History, PATIENT_MS, type PlannedCall } from './history.ts';
import type { Journal } from './servers/journal.ts';
import { STANDALONE } from './servers/streamable-http.ts';
import { asksNothing, asksOnItsStream } from './servers/tools.ts';

/** What became of a call. */
export interface CallReport {
  readonly call: PlannedCall;
  readonly name: string;
  /** `null` if its client gave it up, or left. */
  readonly end: Outcome | null;
  /** How many questions were shown. */
  readonly rounds: number;
}

type Violate = (law: number, how: string) => void;

/** Reasons for which a call can fail although nothing broke. */
const ALLOWED: readonly string[] = [
  'call_not_answerable',
  'upstream_busy',
  'too_many_parked_calls',
];

const DRAINING = 'draining';

/** How often a process opens the standalone stream of a session within a minute, at most. */
const MOST_OPENED = 20;
const MINUTE_MS = 60_000;

export function checkOutcomes(
  history: History,
  reports: readonly CallReport[],
  journal: Journal,
  violate: Violate,
): void {
  for (const report of reports) {
    const { name, call } = report;
    if (journal.count('answered wrongly', name) > 0) {
      violate(4, `${name} got an answer to another question`);
    }
    checkResult(report, violate);
    const problem = problemOf(report);
    if (problem !== null && mustSucceed(history, report, journal)) violate(6, `${name} ${problem}`);
    if (journal.count('left', name) > 0) {
      violate(6, `${name} is left to a server that delivers nothing on streams that are resumed`);
    }
    const arePingsDue = history.server.expectsPings && history.gateway.pingInterval !== null;
    if (arePingsDue && journal.count('not pinged', name) > 0) {
      violate(6, `${name} waits for its client, and its session is not pinged`);
    }
    if (!isUndisturbed(history)) continue;
    const isLost = history.server.endsStandalone && !asksOnItsStream(call.tool);
    const isRead = !call.habits.readsNothing;
    if (!isLost && isRead && waitsInVain(journal, name))
      violate(6, `${name} waits in vain for an answer`);
    if (journal.count('level missing', name) > 0) {
      violate(6, `${name} wants what the server logs, which does not know that`);
    }
    const again = journal.count('answered again', name);
    // Its server does not say that it waits no more.
    if (isRead && again > 0) violate(5, `${name} got ${again} answers too many`);
    if (call.habits.leavesAfterMs !== null && !isOverOrAsked(journal, name)) {
      violate(7, `${name} goes on without its client`);
    }
  }
}

/** Where nothing breaks: laws 2 and 6. */
export function checkUndisturbed(
  history: History,
  reports: readonly CallReport[],
  { entries }: Journal,
  violate: Violate,
): void {
  if (!isUndisturbed(history)) return;
  const processes = new Map<string, string>();
  for (const { what, call, by } of entries) {
    if (what === 'ping ignored') violate(6, `${by} does not reply to a ping`);
    if (what !== 'called') continue;
    if (history.gateway.concurrency === 'separate') continue;
    const caller = reports.find(({ name }) => name === call)?.call.caller;
    if (caller === undefined) continue;
    const before = processes.get(caller) ?? by;
    if (before !== by) violate(2, `calls of ${caller} are made by ${before} and by ${by}`);
    processes.set(caller, by);
  }
}

/** Law 7: a server that ends its streams is not flooded. */
export function checkReconnects(
  { gateway }: History,
  { entries }: Journal,
  violate: Violate,
): void {
  // Who releases each call opens the stream with each retry.
  if (gateway.release !== 'never') return;
  const opened = new Map<string, number[]>();
  for (const { what, stream, session, by, atMs } of entries) {
    if (what !== 'resumed' || stream !== STANDALONE) continue;
    const times = opened.get(`${by} ${session}`) ?? [];
    opened.set(`${by} ${session}`, [...times.filter((time) => time > atMs - MINUTE_MS), atMs]);
    if (times.length < MOST_OPENED) continue;
    return violate(7, `${by} opens the stream of ${session} again and again`);
  }
}

/** Whether nothing happens to the replicas and the server, and no call goes from one reader of its stream to the next. */
export function isUndisturbed({ faults, server, gateway }: History): boolean {
  // A server that demands tokens refuses what a process does between two requests of a client, once the token is over.
  const isOpen = gateway.identity !== 'jwt-forwarded';
  return (
    isOpen && faults.length === 0 && server.forgetsAtMs === null && gateway.release === 'never'
  );
}

/** Whether the server has nothing to do for a call whose client has left. A call that is parked waits for its client. */
export function isOverOrAsked({ entries }: Journal, call: string): boolean {
  const deeds = entries.filter((entry) => entry.call === call).map(({ what }) => what);
  const isOver = deeds.length === 0 || deeds.includes('ended') || deeds.includes('cancelled');
  const isParked = deeds.at(-1) === 'asked' || deeds.at(-1) === 'sent back';
  return isOver || deeds.includes('not answered') || isParked;
}

/** Whether nobody has answered a question of a call that was not cancelled. */
export function waitsInVain({ entries }: Journal, call: string): boolean {
  const deeds = entries.filter((entry) => entry.call === call);
  const cancelled = deeds.find(({ what }) => what === 'cancelled');
  const askedAtMs = (question?: string) =>
    deeds.find((entry) => entry.what === 'asked' && entry.question === question)?.atMs ?? 0;
  return deeds.some(
    ({ what, question }) =>
      what === 'not answered' && (cancelled === undefined || askedAtMs(question) < cancelled.atMs),
  );
}

/** Law 4: a result is that of its call. */
function checkResult({ name, end }: CallReport, violate: Violate): void {
  if (end?.type !== 'done') return;
  const of = /of=(\w+);/.exec(end.text)?.[1];
  if (of !== name) violate(4, `${name} has the result of ${of}`);
}

/** What is wrong with the end of a call to which nothing has happened; `null` if nothing is. */
function problemOf({ call, end }: CallReport): string | null {
  // Who closes a connection cancels its call.
  const { leavesAfterMs, readsNothing } = call.habits;
  if (leavesAfterMs !== null || readsNothing || call.patienceMs < PATIENT_MS) return null;
  if (end === null) return 'is given up';
  if (end.type === 'failed') return ALLOWED.includes(end.reason) ? null : `fails: ${end.reason}`;
  const isAnswered = end.type === 'done' && !/declined|not answered/.test(end.text);
  return isAnswered ? null : `has a question without an answer: ${JSON.stringify(end)}`;
}

/** Whether a call must have its result: its server has all, and its client can come back. */
function mustSucceed(history: History, report: CallReport, journal: Journal): boolean {
  const { server, faults } = history;
  const { call, rounds, end } = report;
  if (server.transport === 'stdio') return mustSucceedOverStdio(history, report, journal);
  const isOwn = server.transport === 'streamable-http' && asksOnItsStream(call.tool);
  if (!isUndisturbed(history)) {
    // Whoever was shown a question can go on at another replica.
    const areGentle = faults.every(isGentle);
    // A process that drains cancels a call whose answers are on their way to the server, which takes time with noise, too.
    const areOnTheirWay = server.takesAnswersMs > 0 || !history.isCalm;
    const isCut = areOnTheirWay && end?.type === 'failed' && end.reason === DRAINING;
    const isKept = server.hasStore && server.forgetsAtMs === null && rounds > 0;
    return areGentle && isKept && isOwn && !isCut;
  }
  // Of several calls that go on at once, nobody can say which one asked beside them; one whose client has left may still ask.
  return isOwn || (isAlone(history, call.caller) && !server.endsStandalone);
}

/**
 * Over stdio a call is lost with its process, and with nothing else. What asks nothing, or has nobody beside it, has its result
 * as long as its process lives and is not stopped.
 */
function mustSucceedOverStdio(
  history: History,
  { call, name }: CallReport,
  journal: Journal,
): boolean {
  const areGentle = history.faults.every(
    ({ kind }) => isOfProcess(kind) && kind !== 'process-hangs',
  );
  const isBegun = history.faults.length === 0 || journal.count('called', name) > 0;
  const isTold = asksNothing(call.tool) || isAlone(history, call.caller);
  return areGentle && isBegun && isTold && journal.count('forgotten', name) === 0;
}

function isAlone({ calls }: History, caller: string): boolean {
  return calls.filter((call) => call.caller === caller).length === 1;
}

/** Whoever listens does so again within this time after its stream has ended, with its token for example. */
const LISTENS_AGAIN_WITHIN_MS = 5_000;

/** Whether a client whose stream had ended was about to listen again. */
export function isAboutToListen(endedMs: number, nowMs: number): boolean {
  return endedMs <= nowMs && nowMs - endedMs < LISTENS_AGAIN_WITHIN_MS;
}
