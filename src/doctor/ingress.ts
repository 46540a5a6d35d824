/** What becomes of each known client at a route, as far as its program and the server decide that. */
import type { RouteConfig } from '../config/schema.ts';
import { CLIENT_PROGRAMS, type ClientProgram } from '../model/client-programs.ts';
import type { ProbeReport } from '../probe/report.ts';
import { finder, type Finding } from './finding.ts';

/** In the order in which they are listed. */
const FATES = {
  parked: 'questions are parked',
  unasked: 'translated, but cannot be asked',
  'passed through': 'passed through',
  direct: 'passed through, and asked by the server itself',
  process: 'a process of its own, and asked in the open call',
  asked: 'translated, and asked in the open call',
  refused: 'refused (edge.legacyClients)',
} as const;
type Fate = keyof typeof FATES;

/** Lists known clients by what they see at a route. @param report `null` if its server is not known */
export function checkIngress(
  { path }: RouteConfig,
  report: ProbeReport | null,
  legacyClients: 'pass-through' | 'reject',
): Finding {
  const found = finder('clients', path);
  if (report === null) return found.warning('not known, since the server is not');
  const groups = new Map<Fate, string[]>();
  const add = (fate: Fate, name: string) => groups.set(fate, [...(groups.get(fate) ?? []), name]);
  for (const program of Object.values<ClientProgram>(CLIENT_PROGRAMS)) {
    const { client, modern } = program;
    const hosted = program.isHosted ? 'by a public https URL' : '';
    const ofModern = modernFate(program, report);
    const ofLegacy = legacyFate(report, legacyClients);
    if (modern === 'yes') add(ofModern, noted(client, hosted));
    if (modern === 'no') add(ofLegacy, client);
    if (modern === 'switched-on') {
      add(ofModern, noted(client, `with ${program.switch}`));
      add(ofLegacy, noted(client, 'without'));
    }
    if (modern === 'unknown') {
      add(ofModern, noted(client, 'if it speaks 2026-07-28', hosted));
      add(ofLegacy, noted(client, 'if not'));
    }
  }
  const lines = Object.entries(FATES).flatMap(([fate, text]) => {
    const names = groups.get(fate as Fate);
    return names === undefined ? [] : [`${text}: ${names.join(', ')}`];
  });
  return found.ok(lines.join('; '));
}

function noted(client: string, ...notes: readonly string[]): string {
  const given = notes.filter((note) => note !== '');
  return given.length === 0 ? client : `${client} (${given.join(', ')})`;
}

function modernFate({ canBeAsked }: ClientProgram, { served }: ProbeReport): Fate {
  if (served === 'passed-through') return 'passed through';
  return canBeAsked === false ? 'unasked' : 'parked';
}

function legacyFate(
  { served, transport }: ProbeReport,
  legacyClients: 'pass-through' | 'reject',
): Fate {
  if (legacyClients === 'reject') return 'refused';
  if (served !== 'bridged') return 'asked';
  return transport === 'stdio' ? 'process' : 'direct';
}
