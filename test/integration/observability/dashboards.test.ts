/** The files of deploy/observability against a real scrape, and against Prometheus's own checks. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import { LegacyServer } from '../../fixtures/servers/legacy-server.ts';

const FOLDER = fileURLToPath(new URL('../../../deploy/observability', import.meta.url));
const read = (name: string) => readFileSync(`${FOLDER}/${name}`, 'utf8');

interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}
interface Rules {
  readonly groups: readonly {
    readonly rules: readonly { readonly alert: string; readonly expr: string }[];
  }[];
}

const { panels } = JSON.parse(read('dashboard.json')) as { readonly panels: readonly Panel[] };
const { groups } = parse(read('alerts.yaml')) as Rules;
const rules = groups.flatMap((group) => group.rules);
const expressions = [
  ...panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ of: title, expr }))),
  ...rules.map(({ alert, expr }) => ({ of: alert, expr })),
];
let scrape = '';
/** What a gateway with workers and a relay shows before anything has happened. */
let atStart = '';

beforeAll(async () => {
  const legacy = await LegacyServer.start({ tools: { greet: async () => 'hello' } });
  const gateway = await startTestGateway(legacy.url, { admin: true });
  await callTool(gateway.url, 'greet');
  scrape = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  await gateway.close();
  const workers = await GatewayProcess.start({ upstream: legacy.url, config: { workers: 2 } });
  atStart = await (await fetch(`${workers.adminUrl}/metrics`)).text();
  await workers.kill();
  await legacy.stop();
});

describe('the dashboard and the alert rules', () => {
  test('exist', () => expect([panels.length, rules.length]).toEqual([38, 21]));

  // Rule dashboards-1: Every metric of the Grafana dashboard and of the alerts is in a scrape, from the start at
  // zero.
  test.each(expressions)('name metrics that exist: $of, $expr', ({ expr }) => {
    const named =
      expr
        .match(/\b(?:mcp|mrtr_gateway|nodejs|process)_[a-z0-9_]+(?=[{[ )]|$)/g)
        ?.filter((name) => name !== 'mcp_method_name') ?? [];
    expect(named.length).toBeGreaterThan(0);
    const known = [...`${scrape}${atStart}`.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(
      ([, name, type]) =>
        type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
    );
    expect(named.filter((name) => !known.includes(name))).toEqual([]);
  });
});

describe('an alert on an increase', () => {
  const selectors = rules.flatMap(({ alert, expr }) =>
    [...expr.matchAll(/increase\((\w+)(?:\{([^}]*)\})?\[/g)].map(
      ([, name = '', matchers = '']) => ({ alert, name, matchers }),
    ),
  );

  // Rule dashboards-1.
  test.each(selectors)('sees the first event: $alert, $name{$matchers}', ({ name, matchers }) => {
    const wanted = [...matchers.matchAll(/(\w+)(=~?)"([^"]*)"/g)].map(
      ([, label = '', operator, value = '']) =>
        new RegExp(`[{,]${label}="${operator === '=~' ? `(?:${value})` : value}"`),
    );
    const series = atStart
      .split('\n')
      .filter((line) => /^\w+/.exec(line)?.[0] === name)
      .filter((line) => wanted.every((pattern) => pattern.test(line)));
    expect(series).not.toEqual([]);
    expect(series.filter((line) => !line.endsWith(' 0'))).toEqual([]);
  });
});

describe("Prometheus's own checks", { tags: ['promtool'] }, () => {
  const promtool = (args: readonly string[], input = '') => {
    const { status, stdout, stderr } = spawnSync('promtool', args, {
      cwd: FOLDER,
      input,
      encoding: 'utf8',
    });
    return { status, output: `${stdout}${stderr}` };
  };

  // Rule dashboards-2: The alerts detect a dead server, a wrong key, dropped questions, a reached limit, a slow tool,
  // an open circuit breaker and a refused configuration.
  test.each([
    ['check', 'rules', 'alerts.yaml'],
    ['test', 'rules', 'alerts_test.yaml'],
  ])('promtool %s %s %s', (...args) => {
    expect(promtool(args)).toMatchObject({ status: 0 });
  });

  test('promtool check metrics, for all but three older names of the library', () => {
    const own = scrape.replaceAll(/^.*nodejs_active_\w+_total.*\n/gm, '');
    expect(promtool(['check', 'metrics'], own)).toEqual({ status: 0, output: '' });
  });
});
