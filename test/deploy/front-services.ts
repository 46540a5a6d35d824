/** The services of deploy/front/compose.yaml. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { pathOf } from '../unit/docs/markdown-tables.ts';

export interface Service {
  readonly image: string;
  readonly command?: readonly string[];
  readonly user?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly networks: readonly string[] | Readonly<Record<string, { ipv4_address: string } | null>>;
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly networks: {
    readonly inside: {
      readonly internal: boolean;
      readonly ipam: { readonly config: readonly [{ subnet: string; ip_range: string }] };
    };
  };
}

export function readCompose(): Compose {
  return parse(readFileSync(pathOf('deploy/front/compose.yaml'), 'utf8')) as Compose;
}

/** Returns the environment of a service, with the variables `${NAME}`, `${NAME:-default}` and `${NAME:?why}` set. */
export function environmentOf(
  { environment = {} }: Service,
  variables: Readonly<Record<string, string>>,
): Record<string, string> {
  const filled = (value: string) =>
    value.replace(
      /\$\{(\w+)(?::-([^}]*)|[^}]*)\}/g,
      (_all, name: string, fallback?: string) => variables[name] ?? fallback ?? '',
    );
  return Object.fromEntries(
    Object.entries(environment).map(([name, value]) => [name, filled(value)]),
  );
}
