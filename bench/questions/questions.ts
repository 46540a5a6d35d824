/**
 * The round trip of a question: from the call to the question, and from the answer to the result; by a
 * modern client through the gateway, and by a legacy client that speaks to the upstream itself.
 */
import { Agent } from 'undici';
import { askGateway, retryGateway } from '../clients/gateway-question.ts';
import { LegacyClient } from '../clients/legacy-client.ts';
import { openLegacySession } from '../clients/legacy-session.ts';
import { Connection } from '../clients/load.ts';
import { modernCall } from '../clients/messages.ts';
import type { QuestionsOptions } from '../sizes.ts';
import { percentile, spreadOf, type Spread } from '../report/statistics.ts';

export interface QuestionsResult {
  /** Round trips of each. */
  readonly samples: number;
  readonly gateway: RoundTrip;
  readonly direct: RoundTrip;
}

export interface RoundTrip {
  readonly toQuestion: Latency;
  readonly toResult: Latency;
}

/** Over the repetitions, in ms. */
export interface Latency {
  readonly medianMs: Spread;
  readonly p99Ms: Spread;
}

interface Times {
  readonly toQuestionMs: number[];
  readonly toResultMs: number[];
}

type Question = () => Promise<{ readonly askedAt: number; readonly answeredAt: number }>;

export async function measureQuestions(
  gateway: string,
  upstream: string,
  options: QuestionsOptions,
  done: (share: number) => void,
): Promise<QuestionsResult> {
  const connection = new Connection(gateway, '/mcp', (id) => modernCall('ask', id));
  const agent = new Agent({ bodyTimeout: 0 });
  const url = `${upstream}/mcp`;
  const legacy = new LegacyClient(agent, url, await openLegacySession(url));
  const bridged: Question = async () => {
    const round = await askGateway(connection);
    const askedAt = performance.now();
    await retryGateway(connection, round);
    return { askedAt, answeredAt: performance.now() };
  };
  const direct: Question = () => legacy.askAndAnswer();
  await rounds(bridged, options.warmUpRounds);
  await rounds(direct, options.warmUpRounds);
  const times: { bridged: Times[]; direct: Times[] } = { bridged: [], direct: [] };
  for (let repetition = 0; repetition < options.repetitions; repetition += 1) {
    times.bridged.push(await rounds(bridged, options.rounds));
    times.direct.push(await rounds(direct, options.rounds));
    done((repetition + 1) / options.repetitions);
  }
  await connection.close();
  await agent.destroy();
  return {
    samples: options.repetitions * options.rounds,
    gateway: roundTrip(times.bridged),
    direct: roundTrip(times.direct),
  };
}

async function rounds(question: Question, count: number): Promise<Times> {
  const times: Times = { toQuestionMs: [], toResultMs: [] };
  for (let round = 0; round < count; round += 1) {
    const startedAt = performance.now();
    const { askedAt, answeredAt } = await question();
    times.toQuestionMs.push(askedAt - startedAt);
    times.toResultMs.push(answeredAt - askedAt);
  }
  return times;
}

function roundTrip(repetitions: readonly Times[]): RoundTrip {
  return {
    toQuestion: latency(repetitions.map(({ toQuestionMs }) => toQuestionMs)),
    toResult: latency(repetitions.map(({ toResultMs }) => toResultMs)),
  };
}

function latency(repetitions: readonly (readonly number[])[]): Latency {
  return {
    medianMs: spreadOf(repetitions.map((times) => percentile(times, 0.5))),
    p99Ms: spreadOf(repetitions.map((times) => percentile(times, 0.99))),
  };
}
