/** The Helm chart, rendered. */
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { pathOf } from '../unit/docs/markdown-tables.ts';

export const CHART = 'deploy/helm/mrtr-gateway';
const SUFFIX = '-values.yaml';

/** The names of the files of values below `ci`, such as `sidecar`. */
export const CASES: readonly string[] = readdirSync(pathOf(`${CHART}/ci`)).map((file) =>
  file.slice(0, -SUFFIX.length),
);

export const valuesOf = (name: string): string => pathOf(`${CHART}/ci/${name}${SUFFIX}`);
export const goldenOf = (name: string): string => pathOf(`deploy/helm/golden/${name}.yaml`);

/** Renders the chart. @throws Error with the message of Helm */
export function render(...args: readonly string[]): string {
  const fixed = ['--namespace', 'tools', '--kube-version', '1.31.0'];
  return helm('template', 'gw', pathOf(CHART), ...fixed, ...args);
}

/** @throws Error with what it wrote if it fails */
export function helm(...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync('helm', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr + stdout);
  return stdout;
}
