import { describe, expect, test } from 'vitest';
import { configFromFlags } from '../../../src/config/load/from-flags.ts';
import { checkIngress } from '../../../src/doctor/ingress.ts';
import { CLIENT_PROGRAMS, type ClientProgram } from '../../../src/model/client-programs.ts';
import type { ProbeReport } from '../../../src/probe/report.ts';
import { readResults } from '../../../sweep/clients/results.ts';
import { advise } from '../../../src/probe/advice.ts';
import { findings } from '../probe/findings.ts';

const [route] = configFromFlags({ upstream: 'http://127.0.0.1:1/mcp' }).routes;
const context = { headerNames: [], query: false };

function fates(
  found: Partial<ProbeReport>,
  legacyClients: 'pass-through' | 'reject' = 'pass-through',
) {
  const report = { ...findings(), advice: advise(findings(), context), ...found };
  return checkIngress(route!, report, legacyClients).text.split('; ');
}

describe('what a client sees depends on what it speaks and on the server', () => {
  const STDIO = { transport: 'stdio' } as const;
  const MODERN = { served: 'passed-through' } as const;

  test.each([
    ['a legacy server over HTTP', {}, 'passed through, and asked by the server itself'],
    ['a legacy server over stdio', STDIO, 'a process of its own, and asked in the open call'],
    ['a modern server', MODERN, 'translated, and asked in the open call'],
  ])('%s', (_what, found, legacy) => {
    const groups = fates(found);
    const modern = 'served' in found ? 'passed through' : 'questions are parked';
    expect(groups.find((each) => each.startsWith(`${modern}: `))).toMatch(/: Claude Code, /);
    expect(groups.find((each) => each.startsWith(`${legacy}: `))).toMatch(/Gemini CLI/);
  });

  test('legacy clients are refused if the configuration says so', () => {
    expect(fates({}, 'reject').at(-1)).toMatch(/^refused \(edge\.legacyClients\): .*Gemini CLI/);
  });
});

test('what is said of programs is what they did when they were run', () => {
  const run = readResults();
  const compared = Object.values<ClientProgram>(CLIENT_PROGRAMS).flatMap((program) => {
    const ofIt = run.filter(({ name }) => name === program.client);
    const modern = ofIt.map(({ with: seen }) => isModern(seen['legacy over HTTP']?.openings));
    if (ofIt.length === 0) return [];
    const declares = ofIt.flatMap(({ with: seen }) => seen['legacy over HTTP']?.declares ?? []);
    expect({
      client: program.client,
      modern: program.modern,
      canBeAsked: program.canBeAsked,
    }).toEqual({
      client: program.client,
      modern: modern.every(Boolean) ? 'yes' : modern.some(Boolean) ? 'switched-on' : 'no',
      canBeAsked: declares.includes('elicitation'),
    });
    return [program.client];
  });
  expect(compared.length).toBeGreaterThan(5);
});

function isModern(openings: readonly { readonly revision: string }[] = []): boolean {
  return openings[0]?.revision === '2026-07-28';
}
