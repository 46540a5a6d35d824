/** How long a question is on its way from the server to the client, in a process that does nothing else, and in one that is busy with plain calls. */
import { setTimeout as pause } from 'node:timers/promises';
import { askingCall, readRound, retryGateway } from '../clients/gateway-question.ts';
import { Connection } from '../clients/load.ts';
import { onItsWayMs } from '../clients/timed-question.ts';
import { Child } from '../processes/child.ts';
import { cpuTimeMs } from '../processes/cpu-time.ts';
import { startGateway } from '../processes/gateway-process.ts';
import { median, percentile, ratio, spreadOf, type Spread } from '../report/statistics.ts';
import type { BusyOptions } from '../sizes.ts';

export interface BusyResult {
  readonly idle: OnItsWay;
  readonly loaded: OnItsWay;
  readonly p99ToIdle: number | null;
  /** Calls a second that the process can serve, and those that it served while questions were timed. */
  readonly rate: Spread;
  readonly pace: Spread;
  /** Of a core, while questions were timed under load; `null` where it cannot be read. */
  readonly coreShare: Spread | null;
}

/** Of a question, in ms. */
export interface OnItsWay {
  readonly samples: number;
  readonly medianMs: number;
  readonly p99Ms: number;
}

/** Of the rate of the process. */
export const LOAD_SHARE = 0.8;

/** Has the upstream say when it sent its question. */
const TIMED = { more: { timed: true } };
const LOAD = new URL('./load-process.ts', import.meta.url);
const WARM_UP_QUESTIONS = 50;
/** Has the queue of a load settle. */
const SETTLE_MS = 300;
/** Between two questions at most, in ms: they must not keep time with the load. */
const MOST_PAUSE_MS = 13;

export async function measureBusy(
  upstream: string,
  folder: string,
  { warmUpMs, rounds, rateMs, questions }: BusyOptions,
  done: (share: number) => void,
): Promise<BusyResult> {
  const gateway = await startGateway({ upstreamUrl: `${upstream}/mcp`, folder });
  const { child, origin } = gateway;
  const load = Child.node('the load', LOAD, [origin]);
  const asking = new Connection(origin, '/mcp', (id) => askingCall(id, TIMED));
  const [idle, loaded]: [number[], number[]] = [[], []];
  const [rates, paces, shares]: [number[], number[], number[]] = [[], [], []];
  try {
    await load.heard('ready');
    await load.ask({ floodMs: warmUpMs }, 'rate');
    await time(asking, WARM_UP_QUESTIONS);
    for (let round = 0; round < rounds; round += 1) {
      idle.push(...(await time(asking, questions)));
      const rate = Number(await load.ask({ floodMs: rateMs }, 'rate'));
      await load.ask({ pace: LOAD_SHARE * rate }, 'pacing');
      const startedAt = performance.now();
      await pause(SETTLE_MS);
      const [timedFrom, cpuBefore] = [performance.now(), cpuTimeMs(child.pid)];
      loaded.push(...(await time(asking, questions)));
      const [timedTo, cpuAfter] = [performance.now(), cpuTimeMs(child.pid)];
      const served = Number(await load.ask({ stop: true }, 'served'));
      rates.push(rate);
      paces.push((served * 1_000) / (performance.now() - startedAt));
      if (cpuBefore !== null && cpuAfter !== null) {
        shares.push((cpuAfter - cpuBefore) / (timedTo - timedFrom));
      }
      done((round + 1) / rounds);
    }
  } finally {
    await asking.close();
    await Promise.all([load.stop(), child.stop()]);
  }
  const [ofIdle, ofLoaded] = [onItsWay(idle), onItsWay(loaded)];
  return {
    idle: ofIdle,
    loaded: ofLoaded,
    p99ToIdle: ratio(ofLoaded.p99Ms, ofIdle.p99Ms),
    rate: spreadOf(rates),
    pace: spreadOf(paces),
    coreShare: shares.length === 0 ? null : spreadOf(shares),
  };
}

/** Has so many questions asked and answered, one at a time. @returns how long each was on its way, in ms */
async function time(connection: Connection, questions: number): Promise<number[]> {
  const times: number[] = [];
  for (let asked = 0; asked < questions; asked += 1) {
    const { callNumber, text } = await connection.next();
    times.push(onItsWayMs(text, process.hrtime.bigint()));
    const round = readRound(callNumber, text);
    if (round === null) throw new Error(`not one question: ${text.slice(0, 200)}`);
    await retryGateway(connection, round, TIMED);
    await pause(Math.random() * MOST_PAUSE_MS);
  }
  return times;
}

function onItsWay(times: readonly number[]): OnItsWay {
  return { samples: times.length, medianMs: median(times), p99Ms: percentile(times, 0.99) };
}
