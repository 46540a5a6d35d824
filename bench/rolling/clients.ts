/** Many callers of several replicas: they park calls, of which only a sample is remembered, and answer the sample elsewhere. */
import { askingCall, readRound, retryGateway, type Round } from '../clients/gateway-question.ts';
import { Connection } from '../clients/load.ts';
import { whyOf } from '../parked/parking.ts';
import { pathOfRoute } from '../processes/gateway-process.ts';

/** A parked call that is to be answered. */
export interface KeptCall {
  readonly round: Round;
  readonly principal: string;
  /** The number of the route. */
  readonly route: number;
}

export interface Kept {
  readonly parked: number;
  readonly kept: readonly KeptCall[];
  /** Why no more were parked; `null` if all were. */
  readonly failure: string | null;
}

export interface ParkOverOptions {
  readonly count: number;
  /** How many of them are remembered, evenly chosen. */
  readonly sample: number;
  /** The number of the first call. Each call has a number of its own, which its result repeats. */
  readonly first?: number;
  /** No call is made after this time of `performance.now()`. */
  readonly until?: number;
  readonly onParked?: (count: number) => void;
}

export interface Answers {
  readonly asked: number;
  /** How many came to the result of their own call. */
  readonly right: number;
  /** What the first of the others got; `null` if there are none. */
  readonly firstWrong: string | null;
}

/** To each route of each replica, each of a caller of its own. */
const CONNECTIONS = 8;
const ANSWERING = 24;

/** Parks calls over all routes of all replicas, one at a time on each connection; stops at the first that fails. */
export async function parkOver(
  origins: readonly string[],
  routes: number,
  { count, sample, first = 1, until = Infinity, onParked = () => {} }: ParkOverOptions,
): Promise<Kept> {
  const every = sample === 0 ? Infinity : Math.floor(count / sample);
  const kept: KeptCall[] = [];
  let [begun, parked] = [0, 0];
  let failure: string | null = null;
  const loop = async (connection: Connection, principal: string, route: number) => {
    while (begun < count && failure === null) {
      if (performance.now() > until) {
        failure = 'the time was up';
        return;
      }
      const index = begun;
      begun += 1;
      try {
        const text = await connection.send(askingCall(first + index, { principal }));
        const round = readRound(first + index, text);
        if (round === null) throw new Error(`not one question: ${text.slice(0, 200)}`);
        if (index % every === 0 && kept.length < sample) kept.push({ round, principal, route });
        parked += 1;
        onParked(parked);
      } catch (error) {
        failure ??= whyOf(error);
      }
    }
  };
  const connections: Connection[] = [];
  const loops: Promise<void>[] = [];
  for (let place = 0; place < CONNECTIONS; place += 1) {
    for (const [replica, origin] of origins.entries()) {
      for (let route = 0; route < routes; route += 1) {
        const connection = new Connection(origin, pathOfRoute(route));
        connections.push(connection);
        loops.push(loop(connection, `caller-${replica}-${place}`, route));
      }
    }
  }
  await Promise.all(loops);
  await Promise.all(connections.map((one) => one.close()));
  return { parked, kept, failure };
}

/** Answers each call at one replica after the other, whichever it was made at. Never rejects. */
export async function answerAll(
  calls: readonly KeptCall[],
  origins: readonly string[],
): Promise<Answers> {
  let [begun, right] = [0, 0];
  let firstWrong: string | null = null;
  const loop = async () => {
    while (begun < calls.length) {
      const index = begun;
      begun += 1;
      const call = calls[index];
      const origin = origins[index % origins.length];
      if (call === undefined || origin === undefined) return;
      const connection = new Connection(origin, pathOfRoute(call.route));
      try {
        await retryGateway(connection, call.round, { principal: call.principal });
        right += 1;
      } catch (error) {
        firstWrong ??= whyOf(error);
      } finally {
        await connection.close();
      }
    }
  };
  await Promise.all(Array.from({ length: ANSWERING }, loop));
  return { asked: calls.length, right, firstWrong };
}
