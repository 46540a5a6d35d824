/** What may become of the calls of legacy clients, and of what they hear. */
import type { LegacySession } from './clients/legacy-session.ts';
import { nameOfLegacy } from './clients/legacy-plans.ts';
import type { History } from './history.ts';
import { isAboutToListen, isOverOrAsked, isUndisturbed, waitsInVain } from './outcomes.ts';
import type { Deed, Journal } from './servers/journal.ts';
import { asksOnItsStream } from './servers/tools.ts';
import { isModern } from './servers/traits.ts';

/** So long it takes until a server hears that a call is cancelled. */
const CANCELLED_WITHIN_MS = 3_000;
/** What a server does for a call that somebody waits for. */
const GOING_ON: readonly Deed[] = ['called', 'answered', 'asked', 'sent back', 'ended'];

type Violate = (law: number, how: string) => void;

export function checkSession(
  history: History,
  session: LegacySession,
  changedMs: number,
  journal: Journal,
  violate: Violate,
): void {
  const { server, legacy } = history;
  // What is said on a stream that is ended at once, or of which nobody has the head, can be lost.
  const isHeard = !server.endsStandalone && !server.holdsHeads;
  const wasAway = session.endedMs.some((endedMs) => isAboutToListen(endedMs, changedMs));
  if (isHeard && !wasAway && session.heardMs < changedMs)
    violate(3, `${session.name} listens, and hears no change`);
  const isOwn = (name: string) => name.startsWith(`${session.name}_`);
  const all = new Set(journal.entries.map(({ call }) => call).filter(isOwn));
  for (const name of all) checkAnswers(history, name, journal, violate);
  if (!isUndisturbed(history)) return;
  const calls = legacy.flatMap((planned) =>
    planned.calls.map((call) => ({ ...call, name: nameOfLegacy(planned.id, call.id) })),
  );
  for (const { name, tool, cancelsAfterMs } of calls.filter((call) => isOwn(call.name))) {
    if (cancelsAfterMs !== null) {
      const untilMs = (session.cancelledMs(name) ?? Infinity) + CANCELLED_WITHIN_MS;
      const isServed = journal.entries.some(
        ({ call, what, atMs }) => call === name && GOING_ON.includes(what) && atMs > untilMs,
      );
      if (isServed || !isOverOrAsked(journal, name)) {
        violate(7, `${name} goes on without its client`);
      }
      continue;
    }
    if (!session.isDone(name)) violate(6, `${name} has no result`);
    const isLost = !asksOnItsStream(tool) && !isHeard;
    if (!isLost && waitsInVain(journal, name)) violate(6, `${name} waits in vain for an answer`);
  }
}

/** Laws 4 and 5: each question has its answer, once. */
function checkAnswers(history: History, name: string, journal: Journal, violate: Violate): void {
  if (journal.count('answered wrongly', name) > 0) {
    violate(4, `${name} got an answer to another question`);
  }
  if (journal.count('state changed', name) > 0) {
    violate(5, `${name} goes on with a state that is not its own`);
  }
  // A server that keeps nothing is sent nothing twice, whatever breaks.
  const isCertain = isModern(history.server) || isUndisturbed(history);
  if (isCertain && journal.count('answered again', name) > 0) {
    violate(5, `${name} got answers too many`);
  }
}
