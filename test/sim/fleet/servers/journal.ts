/** What a simulated server saw and did for each call, in order. */
import { simulation } from '../../engine/simulation.ts';

export type Deed =
  | 'called'
  | 'asked'
  /** The call is to be sent again, without a question. */
  | 'sent back'
  /** The client gave an answer to an open question, or declined it. */
  | 'answered'
  /** The answer is not the one that the client gives to this question. */
  | 'answered wrongly'
  /** The client did not give an answer. */
  | 'declined'
  /** The question had an answer before. */
  | 'answered again'
  /** A request goes on with a state that this server has not given to its call. */
  | 'state changed'
  /** Nobody answered in time. */
  | 'not answered'
  /** The client that reads the session has not replied to a ping. */
  | 'ping ignored'
  /** The server took a question back. */
  | 'withdrawn'
  /** The client cancelled the call. As many servers do, the tool goes on. */
  | 'cancelled'
  /** The server has forgotten the session, with the call. */
  | 'forgotten'
  /** The credentials are over. */
  | 'refused'
  /** The process has left the call, although what comes next on its stream reaches nobody at once. */
  | 'left'
  /** Nothing came in the session for long, although the credentials that came last are good. */
  | 'not pinged'
  /** The call wants what the server logs, and nobody has said so to the server since it refused that. */
  | 'level missing'
  /** A stream goes on over another connection. */
  | 'resumed'
  | 'acted'
  | 'ended';

export interface JournalEntry {
  readonly what: Deed;
  readonly call: string;
  readonly atMs: number;
  readonly session: string;
  /** The process at the other end, or `nobody`. */
  readonly by: string;
  /** Of what happens to a question: its id. */
  readonly question?: string;
  /** Of `asked`, and of `resumed`: the stream, if it has a name. */
  readonly stream?: string;
  /** Of `asked`: the number of the event; of `resumed`: the last event that the reader has. */
  readonly event?: number;
}

export class Journal {
  readonly entries: JournalEntry[] = [];

  note(what: Deed, call: string, more: Omit<JournalEntry, 'what' | 'call' | 'atMs'>): void {
    this.entries.push({ what, call, atMs: simulation().nowMs, ...more });
    const where = [more.by, more.question ?? '', more.stream ?? ''].join(' ').trim();
    simulation().log(`server: ${what} ${call} by ${where}`);
    simulation().onMoment(what, more.by);
  }

  /** The process that made the call. */
  ownerOf(call: string): string | null {
    return this.entries.find((entry) => entry.what === 'called' && entry.call === call)?.by ?? null;
  }

  count(what: Deed, call: string): number {
    return this.entries.filter((entry) => entry.what === what && entry.call === call).length;
  }
}
