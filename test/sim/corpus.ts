/** Histories that broke a law once. Each is whole, so that it stays what it was when the seeds change. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { PATIENT_MS, type History } from './fleet/history.ts';

export interface Kept {
  /** What was wrong. */
  readonly what: string;
  readonly history: History;
}

/** What a history that was kept earlier does not say. */
const CALM = { isCalm: true, relay: 'http', faults: [] } as const;
const PATIENT = { caller: 'ada', thinkMs: 0, patienceMs: PATIENT_MS, isDoubled: false } as const;

/** Reads what is kept. */
export function readCorpus(file = new URL('corpus.yaml', import.meta.url)): Kept[] {
  const kept = parse(readFileSync(file, 'utf8')) as Kept[] | null;
  return (kept ?? []).map(({ what, history }) => {
    const calls = history.calls.map((call) => ({ ...PATIENT, ...call }));
    return { what, history: { ...CALM, ...history, calls } };
  });
}

/** A history as a line of the file, without what is so anyway. */
export function lineOf(history: History): string {
  const calls = history.calls.map((call) => without(call, PATIENT));
  return JSON.stringify({ ...without(history, CALM), calls });
}

function without(of: object, usual: object): object {
  const same = new Map(Object.entries(usual).map(([name, value]) => [name, JSON.stringify(value)]));
  return Object.fromEntries(
    Object.entries(of).filter(([name, value]) => JSON.stringify(value) !== same.get(name)),
  );
}
