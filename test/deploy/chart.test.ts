/** What the chart renders, and what it refuses. `--update` writes the golden files and the schema of the values. */
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { valuesSchema } from '../../scripts/values-schema.ts';
import { pathOf, textOf } from '../unit/docs/markdown-tables.ts';
import { CASES, CHART, goldenOf, render, valuesOf } from './chart.ts';

const SEALED = ['--set', 'seal.existingSecret=keys'];
const IN_FRONT = ['--set', 'upstream.url=http://legacy:3001/mcp'];

test('values.schema.json is made from values.yaml', async () => {
  const schema = valuesSchema(textOf(`${CHART}/values.yaml`));
  const text = `${JSON.stringify(schema, null, 2)}\n`;
  await expect(text).toMatchFileSnapshot(pathOf(`${CHART}/values.schema.json`));
});

test('Chart.yaml has the version of the package', () => {
  const { version } = JSON.parse(textOf('package.json'));
  expect(parse(textOf(`${CHART}/Chart.yaml`))).toMatchObject({ version, appVersion: version });
});

describe('the chart', { tags: ['helm'] }, () => {
  test.each(CASES)('renders ci/%s-values.yaml as its golden file has it', async (name) => {
    await expect(render('--values', valuesOf(name))).toMatchFileSnapshot(goldenOf(name));
  });

  test.each([
    ['no server', SEALED, /no server: set upstream.url/],
    ['two servers', [...SEALED, ...IN_FRONT, '--set', 'server.enabled=true'], /expected one of/],
    ['replicas without a shared key', IN_FRONT, /seal.existingSecret is needed .* create secret/],
    [
      'a server without an image',
      [...SEALED, '--set', 'server.enabled=true'],
      /server.enabled without server.image/,
    ],
    [
      'a sidecar on a cluster that ends it first',
      [...SEALED, '--set', 'server.enabled=true,server.image=a:1', '--kube-version', '1.28.0'],
      /needs Kubernetes 1.29, .* this is v1.28.0/,
    ],
    [
      'a key in a ConfigMap',
      [...SEALED, ...IN_FRONT, '--set', 'config.seal.keys[0].kid=a'],
      /config.seal.keys: .* set seal.existingSecret/,
    ],
    [
      'a port that others need to know',
      [...SEALED, ...IN_FRONT, '--set', 'config.listen=:9000'],
      /config.listen: it follows from ports/,
    ],
    [
      'a grace period that is shorter than the drain',
      [...SEALED, ...IN_FRONT, '--set', 'terminationGracePeriodSeconds=60'],
      /terminationGracePeriodSeconds is 60: expected at least 545/,
    ],
    [
      'a drain of no duration',
      [...SEALED, ...IN_FRONT, '--set', 'config.drain.parked=soon'],
      /config.drain.parked is "soon": expected a duration such as 30s/,
    ],
    [
      'a misspelt value',
      [...SEALED, ...IN_FRONT, '--set', 'replicas=3'],
      /additional properties 'replicas' not allowed/,
    ],
    ['a value of another type', [...SEALED, ...IN_FRONT, '--set', 'ports.mcp=http'], /ports.mcp/],
  ])('refuses %s', (_, args, message) => {
    expect(() => render(...args)).toThrow(message);
  });

  test.each([
    ['5s, 8m and 50s', [], 545],
    ['milliseconds without a unit', ['config.drain.parked=120000'], 185],
    ['hours', ['config.drain.parked=1h'], 3665],
    ['the default of the gateway for what is not set', ['config.drain=null'], 35],
    ['a server that ends after the gateway', ['server.enabled=true,server.image=a:1'], 555],
  ])('gives a pod the time for a drain of %s', (_, values, seconds) => {
    const server = values.some((value) => value.startsWith('server')) ? [] : IN_FRONT;
    const rendered = render(...SEALED, ...server, ...values.flatMap((value) => ['--set', value]));
    expect(rendered).toContain(`terminationGracePeriodSeconds: ${seconds}\n`);
  });
});
