/**
 * Containers of this checkout, in a store and on a network of their own. Pods are started from what the chart renders. podman 4
 * knows no native sidecars: the server is started as a plain container, and tests stop it as the kubelet does.
 */
import { execFile, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { pathOf } from '../unit/docs/markdown-tables.ts';

const STORE = pathOf('results/containers');
const ENVIRONMENT = {
  ...process.env,
  CONTAINERS_CONF: join(STORE, 'containers.conf'),
  CONTAINERS_STORAGE_CONF: join(STORE, 'storage.conf'),
};
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

export const BUILD_MS = 30 * 60_000;
/** Without an overlay file system, each container has a copy of its image. */
export const STOP_MS = 5 * 60_000;

/** Builds all images, and removes what a run left that was killed. The first time takes minutes. @throws Error with what the script wrote */
export function buildImages(): void {
  run(pathOf('test/deploy/images.sh'), STORE, pathOf('.'));
  removeAll(isLeftover);
}

/** What there is of containers, in the order in which it can be removed. */
const KINDS = [
  {
    list: ['pod', 'ps', '--format', '{{.Name}}'],
    remove: ['pod', 'rm', '--force', '--time', '0'],
  },
  { list: ['ps', '--all', '--format', '{{.Names}}'], remove: ['rm', '--force', '--time', '0'] },
  { list: ['network', 'ls', '--format', '{{.Name}}'], remove: ['network', 'rm', '--force'] },
] as const;

/** Removes pods, containers and networks by their names, with their rules in the firewall of this machine. */
function removeAll(isOne: (name: string) => boolean): void {
  for (const { list, remove } of KINDS) {
    const names = podman(...list)
      .split('\n')
      .filter(isOne);
    if (names.length > 0) podman(...remove, ...names);
  }
}

/** Removes the pods, containers and networks with this name, and those whose names begin so. */
export function removeNamed(name: string): void {
  removeAll((one) => one === name || one.startsWith(`${name}-`));
}

/** Of test processes that are gone. */
function isLeftover(name: string): boolean {
  const process = /^(?:pod_)?mrtr-(?:\w+-)?(\d+)(?:[-_]|$)/.exec(name)?.[1];
  return process !== undefined && !existsSync(`/proc/${process}`);
}

/** Builds the image of a program of this machine. */
export function buildLogin(image: string, command: string): void {
  const folder = mkdtempSync(join(tmpdir(), 'mrtr-login-'));
  const path = run('sh', '-c', 'command -v "$0"', command);
  copyFileSync(path, join(folder, 'program'));
  writeFileSync(
    join(folder, 'Dockerfile'),
    'FROM localhost/stand-in\nCOPY program /bin/program\nENTRYPOINT ["/bin/program"]\n',
  );
  run('buildah', 'bud', '-q', '--pull=never', '--isolation', 'chroot', '-t', image, folder);
  rmSync(folder, { recursive: true });
}

/** @throws Error with what it wrote if it fails */
export const podman = (...args: readonly string[]): string => run('podman', ...args);

/** Returns what a container wrote. */
export function logOf(container: string): string {
  return run('sh', '-c', 'podman logs "$0" 2>&1', container);
}

/** The same, for what takes its time. */
export async function podmanLater(...args: readonly string[]): Promise<string> {
  return (await promisify(execFile)('podman', args, { env: ENVIRONMENT })).stdout.trim();
}

export const podmanCompose = (...args: readonly string[]): string => run('podman-compose', ...args);

function run(command: string, ...args: readonly string[]): string {
  const options = { encoding: 'utf8', env: ENVIRONMENT, maxBuffer: MAX_OUTPUT_BYTES } as const;
  const { status, stdout, stderr, error } = spawnSync(command, args, options);
  if (status !== 0)
    throw new Error(`${command} ${args.join(' ')}: ${error ?? ''}${stderr}${stdout}`);
  return stdout.trim();
}

/** The part of a container of a pod that podman gets. */
interface Container {
  readonly name: string;
  readonly image: string;
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly resources: { readonly limits?: { readonly memory?: string } };
  readonly securityContext: {
    readonly runAsUser?: number;
    readonly readOnlyRootFilesystem?: boolean;
    readonly capabilities: { readonly drop: readonly string[] };
  };
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[];
}

export interface Pod {
  readonly ip: string;
  readonly url: string;
  /** The name of one of its containers. */
  container(name: string): string;
}

export interface Started {
  readonly ip: string;
  readonly name: string;
}

export class Network {
  readonly #name = `mrtr-${process.pid}`;
  readonly #folder = mkdtempSync(join(tmpdir(), 'mrtr-gateway-pods-'));
  readonly #subnet: string;
  #started = 0;

  /** podman chooses a subnet that is free on this machine. */
  constructor() {
    podman('network', 'create', this.#name);
    const subnet = podman(
      'network',
      'inspect',
      '--format',
      '{{(index .Subnets 0).Subnet}}',
      this.#name,
    );
    this.#subnet = subnet.replace(/\.0\/24$/, '');
  }

  /** Starts the pod of the deployment that a chart rendered. @param secrets the content of each Secret, by its name */
  startPod(rendered: string, secrets: Readonly<Record<string, object>>): Pod {
    const objects = parseAllDocuments(rendered).map((one) => one.toJS());
    const { spec } = objects.find(({ kind }) => kind === 'Deployment').spec.template;
    const { data } = objects.find(({ kind }) => kind === 'ConfigMap');
    const ip = this.#nextAddress();
    const pod = `${this.#name}-${this.#started}`;
    podman('pod', 'create', '--name', pod, '--network', this.#name, '--ip', ip);
    const folders = new Map<string, string>(
      spec.volumes.map(({ name, secret }: { name: string; secret?: { secretName: string } }) => [
        name,
        this.#write(`${pod}-${name}`, secret === undefined ? data : secrets[secret.secretName]),
      ]),
    );
    const container = (name: string) => `${pod}-${name}`;
    for (const one of [...(spec.initContainers ?? []), ...spec.containers] as Container[]) {
      const from = ['--pod', pod, '--name', container(one.name), '--pull', 'never', '--detach'];
      podman('run', ...from, ...flagsOf(one, ip, folders), one.image, ...(one.args ?? []));
    }
    return { ip, url: `http://${ip}:8080/mcp`, container };
  }

  /** Starts a container that is no pod. */
  start(image: string, flags: readonly string[], ...args: readonly string[]): Started {
    const ip = this.#nextAddress();
    const name = `${this.#name}-${this.#started}`;
    const place = ['--name', name, '--network', this.#name, '--ip', ip];
    podman('run', '--detach', '--pull', 'never', ...place, ...flags, image, ...args);
    return { ip, name };
  }

  remove(): void {
    removeNamed(this.#name);
    rmSync(this.#folder, { recursive: true });
  }

  #nextAddress(): string {
    this.#started += 1;
    return `${this.#subnet}.${10 + this.#started}`;
  }

  #write(name: string, files: object = {}): string {
    const folder = join(this.#folder, name);
    mkdirSync(folder);
    for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
    return folder;
  }
}

function flagsOf(
  { env = [], resources, securityContext, volumeMounts = [] }: Container,
  ip: string,
  folders: ReadonlyMap<string, string>,
): string[] {
  const memory = resources.limits?.memory;
  return [
    ...env.flatMap(({ name, value }) => ['--env', `${name}=${value ?? ip}`]),
    ...volumeMounts.flatMap(({ name, mountPath }) => [
      '--volume',
      `${folders.get(name)}:${mountPath}:ro`,
    ]),
    ...securityContext.capabilities.drop.flatMap((capability) => ['--cap-drop', capability]),
    ...(securityContext.readOnlyRootFilesystem === true ? ['--read-only'] : []),
    ...(securityContext.runAsUser === undefined ? [] : ['--user', `${securityContext.runAsUser}`]),
    ...(memory === undefined ? [] : ['--memory', memory.replace('Mi', 'm').replace('Gi', 'g')]),
    '--security-opt',
    'no-new-privileges',
  ];
}
