/** Manifests as an API server reads them, and what the tools of Helm say of the chart. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { pathOf, textOf } from '../unit/docs/markdown-tables.ts';
import { CASES, CHART, goldenOf, helm, valuesOf } from './chart.ts';

/** Compiles much of Kubernetes the first time. */
const COMPILE_MS = 30 * 60_000;
const HELM_DOCS = 'github.com/norwoodj/helm-docs/cmd/helm-docs@v1.14.2';

const folder = mkdtempSync(join(tmpdir(), 'mrtr-gateway-manifests-'));
afterAll(() => rmSync(folder, { recursive: true }));

function go(...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync('go', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr + stdout);
  return stdout;
}

describe('the API server of Kubernetes 1.37', { tags: ['deploy', 'go-toolchain'] }, () => {
  const program = join(folder, 'check');
  beforeAll(() => go('build', '-C', pathOf('deploy/check'), '-o', program, '.'), COMPILE_MS);

  const MANIFESTS = ['sidecar', 'replicas'].map((name) => pathOf(`deploy/kubernetes/${name}.yaml`));

  test.each([...MANIFESTS, ...CASES.map(goldenOf)])('would accept %s', (file) => {
    const { status, stdout } = spawnSync(program, [file], { encoding: 'utf8' });
    expect(stdout).toMatch(/: \d+ objects, ok\n$/);
    expect(status).toBe(0);
  });

  test.each([
    ['a misspelt field', 'livenessProbe:', 'livenessProb:', /unknown field .*livenessProb"/],
    ['a value of another type', 'containerPort: 8080', 'containerPort: mcp', /containerPort/],
    ['a rollout that cannot begin', 'maxSurge: 1', 'maxSurge: 0', /maxUnavailable: Invalid value/],
    [
      'a pod with rights',
      'allowPrivilegeEscalation: false',
      'allowPrivilegeEscalation: true',
      /not restricted: allowPrivilegeEscalation != false/,
    ],
  ])('would refuse %s', (what, right, wrong, message) => {
    const file = join(folder, `${what}.yaml`);
    writeFileSync(file, textOf('deploy/kubernetes/replicas.yaml').replace(right, wrong));
    const { status, stdout } = spawnSync(program, [file], { encoding: 'utf8' });
    expect(stdout).toMatch(message);
    expect(status).toBe(1);
  });
});

describe('the chart', { tags: ['deploy'] }, () => {
  test.each(CASES)('passes helm lint with ci/%s-values.yaml', { tags: ['helm'] }, (name) => {
    const args = ['--strict', '--kube-version', '1.31.0', '--values', valuesOf(name)];
    expect(helm('lint', pathOf(CHART), ...args)).toContain('0 chart(s) failed');
  });

  test('has a README made by helm-docs', { tags: ['go-toolchain'], timeout: COMPILE_MS }, () => {
    const made = go('run', HELM_DOCS, '-c', pathOf(CHART), '-s', 'file', '--dry-run');
    expect(`${made.trimEnd()}\n`).toBe(`${textOf(`${CHART}/README.md`).trimEnd()}\n`);
  });
});
