/** Histories that broke a law once. Each is whole, so that it stays what it was when the seeds change. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { PLAIN_HABITS } from './fleet/clients/habits.ts';
import { USUAL_LEGACY_CALL, USUAL_SESSION } from './fleet/clients/legacy-plans.ts';
import { type History, PATIENT_MS } from './fleet/history.ts';
import { PLAIN_SERVER } from './fleet/servers/traits.ts';
import { USUAL_SETTINGS } from './fleet/settings.ts';

export interface Kept {
  /** What was wrong. */
  readonly what: string;
  readonly history: History;
}

/** What a history that was kept does not say. */
const USUAL = {
  isCalm: true,
  relay: 'http',
  workers: 1,
  hasStore: true,
  faults: [],
  listeners: [],
  legacy: [],
  gateway: USUAL_SETTINGS,
  server: PLAIN_SERVER,
} as const;
const USUAL_CALL = {
  ...{ caller: 'ada', thinkMs: 0, patienceMs: PATIENT_MS, isDoubled: false },
  habits: PLAIN_HABITS,
  dialect: null,
};

/** Reads what is kept. */
export function readCorpus(file = new URL('corpus.yaml', import.meta.url)): Kept[] {
  const kept = parse(readFileSync(file, 'utf8')) as Kept[];
  return kept.map(({ what, history }) => {
    const calls = history.calls.map((call) => ({
      ...{ ...USUAL_CALL, ...call },
      habits: { ...PLAIN_HABITS, ...call.habits },
    }));
    const gateway = { ...USUAL_SETTINGS, ...history.gateway };
    const server = { ...PLAIN_SERVER, ...history.server };
    const sessions = 'legacy' in history ? history.legacy : [];
    const legacy = sessions.map((session) => ({
      ...{ ...USUAL_SESSION, ...session },
      calls: session.calls.map((call) => ({ ...USUAL_LEGACY_CALL, ...call })),
    }));
    return { what, history: { ...USUAL, ...history, gateway, server, calls, legacy } };
  });
}

/** A history as a line of the file, without what is so anyway. */
export function lineOf(history: History): string {
  const calls = history.calls.map((call) => without(call, USUAL_CALL));
  return JSON.stringify({ ...without(history, USUAL), calls });
}

function without(of: object, usual: object): object {
  const same = new Map(Object.entries(usual).map(([name, value]) => [name, JSON.stringify(value)]));
  return Object.fromEntries(
    Object.entries(of).filter(([name, value]) => JSON.stringify(value) !== same.get(name)),
  );
}
