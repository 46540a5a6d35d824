/** Calls that may be refused or stay without an answer, which is counted. */
import { readRound, retryGateway } from '../clients/gateway-question.ts';
import type { Connection } from '../clients/load.ts';
import { markOf, modernCall } from '../clients/messages.ts';
import { whyOf, type ParkedCall } from '../parked/parking.ts';
import type { Child } from '../processes/child.ts';

export interface Flooded {
  readonly tried: number;
  readonly parked: number;
  readonly refused: number;
  readonly unanswered: number;
  /** The first refusal, or the first reason why there was no answer. */
  readonly firstProblem: string | null;
  readonly tookMs: number;
}

export interface Served {
  readonly tookMs: number;
  readonly right: number;
  readonly refused: number;
  readonly unanswered: number;
}

const MOST_ANSWERED = 100;

/** Makes so many calls that ask; ends early when the process has, or the time is up. */
export async function flood(
  child: Child,
  connections: readonly Connection[],
  count: number,
  withinMs: number,
): Promise<{ readonly flooded: Flooded; readonly calls: readonly ParkedCall[] }> {
  const startedAt = performance.now();
  const calls: ParkedCall[] = [];
  let [tried, refused, unanswered] = [0, 0, 0];
  let firstProblem: string | null = null;
  const goesOn = () => tried < count && !child.ended && performance.now() < startedAt + withinMs;
  const loop = async (connection: Connection) => {
    while (goesOn()) {
      tried += 1;
      const callNumber = tried;
      try {
        const { status, text } = await connection.exchange(modernCall('ask', callNumber));
        const round = status === 200 ? readRound(callNumber, text) : null;
        if (round !== null) calls.push({ connection, round });
        else {
          refused += 1;
          firstProblem ??= `HTTP ${status} ${text.slice(0, 200)}`;
        }
      } catch (error) {
        unanswered += 1;
        firstProblem ??= whyOf(error);
      }
    }
  };
  await Promise.all(connections.map(loop));
  const tookMs = performance.now() - startedAt;
  const parked = calls.length;
  return { calls, flooded: { tried, parked, refused, unanswered, firstProblem, tookMs } };
}

/** Calls without questions for so long; ends early when the process has. */
export async function keepCalling(
  child: Child,
  connections: readonly Connection[],
  forMs: number,
): Promise<Served> {
  const startedAt = performance.now();
  let [made, right, refused, unanswered] = [0, 0, 0, 0];
  const loop = async (connection: Connection) => {
    while (!child.ended && performance.now() < startedAt + forMs) {
      made += 1;
      const callNumber = made;
      try {
        const { text } = await connection.exchange(modernCall('echo', callNumber));
        if (text.includes(markOf(callNumber)) && text.includes('"content":[')) right += 1;
        else refused += 1;
      } catch {
        unanswered += 1;
      }
    }
  };
  await Promise.all(connections.map(loop));
  return { tookMs: performance.now() - startedAt, right, refused, unanswered };
}

/** Answers some of the parked calls, evenly chosen. */
export async function answerParked(
  calls: readonly ParkedCall[],
): Promise<{ readonly right: number; readonly tried: number }> {
  const step = Math.ceil(calls.length / MOST_ANSWERED);
  const chosen = calls.filter((_call, index) => index % step === 0);
  let right = 0;
  for (const { connection, round } of chosen) {
    try {
      await retryGateway(connection, round);
      right += 1;
    } catch {
      // It is counted by what is missing.
    }
  }
  return { right, tried: chosen.length };
}
