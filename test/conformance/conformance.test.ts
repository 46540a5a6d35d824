/**
 * The official conformance suite for servers, run against the gateway in front of legacy servers: whoever
 * talks to the gateway talks to a server of the modern revision.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { GatewayProcess } from '../fixtures/gateways/gateway-process.ts';
import { startLegacyConformance } from '../fixtures/conformance/process.ts';
import { LEGACY_SERVERS } from './legacy-servers.ts';
import {
  readExpectedFailures,
  readRequirements,
  runSuite,
  type Check,
  type SuiteRun,
} from './suite.ts';

test('the revision requires 37 scenarios of a server', async () => {
  const { required } = await readRequirements();
  expect(new Set(required).size).toBe(37);
});

describe.each(LEGACY_SERVERS)(
  'in front of a server on $transport that asks $asks with $ids ids',
  (legacyServer) => {
    const expectedFailures = new URL(
      `expected-failures-${legacyServer.ids}-ids.yaml`,
      import.meta.url,
    );
    const stops: (() => Promise<unknown>)[] = [];
    let run: SuiteRun;
    let required: string[];
    let unscored: string[];

    beforeAll(async () => {
      ({ required, unscored } = await readRequirements());
      const legacy = await startLegacyConformance(legacyServer);
      stops.push(() => legacy.stop());
      const gateway = await GatewayProcess.start({
        upstream: legacy.url,
        relay: false,
        // No id may be used twice in a session, so a server that names its questions can use each name once.
        route: legacyServer.ids === 'string' ? { sessions: { scope: 'call' } } : {},
      });
      stops.push(() => gateway.kill());
      run = await runSuite(gateway.url, expectedFailures);
    });
    afterAll(async () => {
      for (const stop of stops.reverse()) await stop();
    });

    /** `scenario:check` of the required scenarios' checks that came out in one of these ways. */
    function checksThatAre(...statuses: Check['status'][]): string[] {
      const found = required.flatMap((scenario) =>
        (run.scenarios.get(scenario) ?? [])
          .filter(({ status }) => statuses.includes(status))
          .map(({ id }) => `${scenario}:${id}`),
      );
      return [...new Set(found)].sort();
    }

    test('every required scenario runs to its end, and nothing unknown does', () => {
      const ran = [...run.scenarios.keys()].sort();
      expect(ran, run.output).toEqual([...required, ...unscored].sort());
    });

    test('every required scenario comes to a verdict of its own', () => {
      const judged = required.filter((scenario) =>
        (run.scenarios.get(scenario) ?? []).some(
          // The schema check is appended to every scenario, even to one that sent nothing.
          ({ id, status }) =>
            id !== 'wire-schema-valid' && status !== 'SKIPPED' && status !== 'INFO',
        ),
      );
      expect(judged, run.output).toEqual(required);
    });

    test('exactly the checks fail or warn that are expected to', async () => {
      const expected = (await readExpectedFailures(expectedFailures)).sort();
      expect(checksThatAre('FAILURE', 'WARNING'), run.output).toEqual(expected);
    });

    test('no check is skipped', () => {
      expect(checksThatAre('SKIPPED'), run.output).toEqual([]);
    });

    test('the suite itself finds no unexpected failure', () => {
      expect(run.exitCode, run.output).toBe(0);
    });
  },
);
