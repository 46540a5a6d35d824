/** Parking many calls at once, and answering some of them. */
import { askGateway, retryGateway, type Round } from '../clients/gateway-question.ts';
import { Connection } from '../clients/load.ts';
import { modernCall } from '../clients/messages.ts';

/** A call that waits for its answer, and the connection over which it was made. */
export interface ParkedCall {
  readonly connection: Connection;
  readonly round: Round;
}

export interface Parking {
  readonly calls: readonly ParkedCall[];
  /** Why no more were parked; `null` if all were. */
  readonly failure: string | null;
}

export interface ParkOptions {
  /** No call is made after this time of `performance.now()`. */
  readonly until?: number;
  /** Called with how many are parked. */
  readonly onParked?: (count: number) => void;
}

const MOST_ANSWERED = 100;

/** Opens so many connections whose calls ask. */
export function askingConnections(origin: string, path: string, count: number): Connection[] {
  return Array.from(
    { length: count },
    () => new Connection(origin, path, (id) => modernCall('ask', id)),
  );
}

/** Parks so many calls over these connections, one at a time on each; stops at the first that fails. */
export async function park(
  connections: readonly Connection[],
  count: number,
  { until = Infinity, onParked = () => {} }: ParkOptions = {},
): Promise<Parking> {
  const calls: ParkedCall[] = [];
  let begun = 0;
  let failure: string | null = null;
  const loop = async (connection: Connection) => {
    while (begun < count && failure === null) {
      if (performance.now() > until) {
        failure = 'the time was up';
        return;
      }
      begun += 1;
      try {
        calls.push({ connection, round: await askGateway(connection) });
        onParked(calls.length);
      } catch (error) {
        failure ??= whyOf(error);
      }
    }
  };
  await Promise.all(connections.map(loop));
  return { calls, failure };
}

/** The same. @throws Error if one fails */
export async function parkAll(
  connections: readonly Connection[],
  count: number,
  options: ParkOptions = {},
): Promise<readonly ParkedCall[]> {
  const { calls, failure } = await park(connections, count, options);
  if (failure !== null)
    throw new Error(`${calls.length} of ${count} calls were parked: ${failure}`);
  return calls;
}

/**
 * Answers some, evenly chosen, so that it is certain that they are there.
 * @param over the connection for the retry of a call; without it its own
 * @returns how many were answered
 * @throws Error if one does not come to its own result
 */
export async function answerSome(
  calls: readonly ParkedCall[],
  over: (call: ParkedCall, index: number) => Connection = ({ connection }) => connection,
): Promise<number> {
  const step = Math.ceil(calls.length / MOST_ANSWERED);
  const chosen = calls.filter((_call, index) => index % step === 0);
  for (const [index, call] of chosen.entries()) {
    const connection = over(call, index).fresh();
    try {
      await retryGateway(connection, call.round);
    } finally {
      await connection.close();
    }
  }
  return chosen.length;
}

/** The message of an error and of what caused it, shortened. */
export function whyOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : '';
  return `${error.message.slice(0, 160)}${cause}`;
}
