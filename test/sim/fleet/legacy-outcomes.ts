/** What may become of the calls of legacy clients, and of what they hear. */
import type { LegacySession } from './clients/legacy-session.ts';
import { nameOfLegacy } from './clients/legacy-plans.ts';
import type { History } from './history.ts';
import { isAboutToListen, isUndisturbed, waitsInVain } from './outcomes.ts';
import type { Journal } from './servers/journal.ts';
import { asksOnItsStream } from './servers/tools.ts';

export function checkSession(
  history: History,
  session: LegacySession,
  changedMs: number,
  journal: Journal,
  violate: (law: number, how: string) => void,
): void {
  const { server, legacy } = history;
  // What is said on a stream that is ended at once, or of which nobody has the head, can be lost.
  const isHeard = !server.endsStandalone && !server.holdsHeads;
  const wasAway = session.endedMs.some((endedMs) => isAboutToListen(endedMs, changedMs));
  if (isHeard && !wasAway && session.heardMs < changedMs)
    violate(3, `${session.name} listens, and hears no change`);
  const calls = legacy.flatMap((planned) =>
    planned.calls.map(({ id, tool }) => ({ name: nameOfLegacy(planned.id, id), tool })),
  );
  for (const { name, tool } of calls.filter((call) => call.name.startsWith(`${session.name}_`))) {
    if (journal.count('answered wrongly', name) > 0) {
      violate(4, `${name} got an answer to another question`);
    }
    if (!isUndisturbed(history)) continue;
    if (!session.isDone(name)) violate(6, `${name} has no result`);
    const isLost = !asksOnItsStream(tool) && !isHeard;
    if (!isLost && waitsInVain(journal, name)) violate(6, `${name} waits in vain for an answer`);
    if (journal.count('answered again', name) > 0) violate(5, `${name} got answers too many`);
  }
}
