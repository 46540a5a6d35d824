/** What is asked beside a call has a reader: the process that made the call, or goes on with it, has opened the stream before. */
import { isOfLegacy } from './clients/legacy-plans.ts';
import type { History } from './history.ts';
import type { Journal, JournalEntry } from './servers/journal.ts';
import { STANDALONE } from './servers/streamable-http.ts';

/** See `Strikes.wasQuiet`. */
export type Quiet = (fromMs: number, untilMs: number, beforeMs: number) => boolean;

/** A session for whose stream nobody waits any more was begun so long ago at most. */
const OPENING_MS = 4_000;

/**
 * Law 6.
 * @param wasQuiet whether nothing struck in that time
 * @param isWorking whether a process lives to the end
 */
export function checkBeside(
  { server, gateway }: History,
  { entries }: Journal,
  wasQuiet: Quiet,
  isWorking: (process: string) => boolean,
  violate: (law: number, how: string) => void,
): void {
  const isOpened =
    !server.endsStandalone && !server.holdsHeads && server.secondStream === 'replaces';
  const { release, identity } = gateway;
  if (!isOpened || release !== 'never' || identity === 'jwt-forwarded') return;
  for (const [at, { what, by, call, question, session, stream, atMs }] of entries.entries()) {
    if (what !== 'asked' || stream !== STANDALONE || by !== 'nobody' || isOfLegacy(call)) continue;
    const before = entries.slice(0, at);
    const process = before.findLast((entry) => entry.call === call && isSent(entry))?.by;
    if (process === undefined || !isWorking(process)) continue;
    const inSession = before.filter((entry) => entry.session === session);
    const fromMs = inSession.find((entry) => entry.by === process)?.atMs ?? atMs;
    const isTaken = inSession.some(
      (entry) =>
        entry.what === 'resumed' &&
        entry.stream === STANDALONE &&
        entry.by !== process &&
        entry.atMs >= fromMs,
    );
    if (isTaken || !wasQuiet(fromMs, atMs, OPENING_MS)) continue;
    violate(
      6,
      `${question} of ${call} is lost: ${process} goes on with the call, and reads no stream beside it`,
    );
  }
}

/** Whether a process has sent something of the call. */
function isSent({ what }: JournalEntry): boolean {
  return what === 'called' || what === 'answered';
}
