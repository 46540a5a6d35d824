/**
 * What some tests need that not every machine has. A test says so by a tag of that name, and is skipped where it
 * is missing. The end of the run says how many tests were skipped, and how to get what they need.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

export interface Need {
  readonly tag: string;
  /** Completes "12 tests need ...". */
  readonly what: string;
  readonly howToGet: string;
  readonly isThere: boolean;
}

const runs = (command: string, ...args: string[]): boolean => spawnSync(command, args).status === 0;

/** The command that starts a Redis or Valkey server, if there is one. */
export const REDIS_COMMAND = ['redis-server', 'valkey-server'].find((one) =>
  runs(one, '--version'),
);

/** A Python with the package `mcp` in a version below 2; empty counts as not set. */
export const PYTHON = process.env['MCP_PYTHON'] || undefined;

/** A Python with the package `fastmcp` in version 4, which brings `mcp` in version 2; empty counts as not set. */
export const PYTHON_2 = process.env['MCP_PYTHON_2'] || undefined;

/** The server of the Go SDK, built. */
export const GO_SERVER = process.env['MCP_GO_SERVER'] || undefined;

/** A browser for the tests that drive one. */
export const CHROMIUM =
  process.env['CHROMIUM'] ||
  ['/usr/bin/chromium', '/usr/bin/google-chrome'].find((path) => existsSync(path));

/** The command of oauth2-proxy; empty counts as not set. */
export const OAUTH2_PROXY = process.env['OAUTH2_PROXY'] || 'oauth2-proxy';

/** The library that gives a process a clock of its own. */
export const LIBFAKETIME = spawnSync(
  'sh',
  ['-c', 'ls /usr/lib/*/faketime/libfaketimeMT.so.1 /usr/lib/faketime/libfaketimeMT.so.1'],
  { encoding: 'utf8' },
).stdout.split('\n')[0];

const hasOpenssl = runs('openssl', 'version');

/** A build without TLS stops at the directive; one with it stops at the missing certificate. */
function redisHasTls(): boolean {
  if (REDIS_COMMAND === undefined || !hasOpenssl) return false;
  const args = ['--port', '0', '--tls-port', '1', '--save', ''];
  const { stderr } = spawnSync(REDIS_COMMAND, args, { encoding: 'utf8', timeout: 5000 });
  return !/Bad directive|FATAL CONFIG/.test(stderr);
}

function hasNamespaces(): boolean {
  if (process.getuid?.() !== 0) return false;
  const name = `mrtr-${process.pid}-try`;
  if (!runs('ip', 'netns', 'add', name)) return false;
  return runs('ip', 'netns', 'delete', name);
}

export const NEEDS: readonly Need[] = [
  {
    tag: 'redis',
    what: 'Redis',
    howToGet: 'install redis-server or valkey-server',
    isThere: REDIS_COMMAND !== undefined,
  },
  {
    tag: 'redis-tls',
    what: 'OpenSSL and a Redis with TLS',
    howToGet: 'install openssl, and a redis-server that is built with TLS',
    isThere: redisHasTls(),
  },
  {
    tag: 'python',
    what: 'Python with the MCP SDK',
    howToGet: "set MCP_PYTHON to a Python 3.10 or newer with 'mcp<2'",
    isThere: PYTHON !== undefined,
  },
  {
    tag: 'python-2',
    what: 'Python with version 2 of the MCP SDK',
    howToGet: "set MCP_PYTHON_2 to a Python 3.10 or newer with 'fastmcp>=4,<5'",
    isThere: PYTHON_2 !== undefined,
  },
  {
    tag: 'go',
    what: 'the server of the Go SDK',
    howToGet: 'build test/fixtures/real-servers/go-server and set MCP_GO_SERVER to it',
    isThere: GO_SERVER !== undefined,
  },
  {
    tag: 'nginx',
    what: 'nginx',
    howToGet: 'install nginx (Debian: nginx-light)',
    isThere: runs('nginx', '-v'),
  },
  {
    tag: 'chromium',
    what: 'Chromium',
    howToGet: 'install chromium, or set CHROMIUM to the path of one',
    isThere: CHROMIUM !== undefined,
  },
  {
    tag: 'faketime',
    what: 'libfaketime',
    howToGet: 'install faketime',
    isThere: LIBFAKETIME !== undefined && LIBFAKETIME !== '',
  },
  {
    tag: 'namespaces',
    what: 'network namespaces',
    howToGet: 'install ip (Debian: iproute2) and run as root',
    isThere: hasNamespaces(),
  },
  {
    tag: 'oauth2-proxy',
    what: 'oauth2-proxy',
    howToGet:
      'install oauth2-proxy, or set OAUTH2_PROXY to the path of one (go build in its repository)',
    isThere: runs(OAUTH2_PROXY, '--version'),
  },
  {
    tag: 'helm',
    what: 'Helm',
    howToGet: 'install helm (go install helm.sh/helm/v3/cmd/helm@latest)',
    isThere: runs('helm', 'version'),
  },
  {
    tag: 'go-toolchain',
    what: 'Go',
    howToGet: 'install Go 1.26',
    isThere: runs('go', 'version'),
  },
  {
    tag: 'rust-toolchain',
    what: 'Rust',
    howToGet: 'install Rust 1.88 with cargo',
    isThere: runs('cargo', '--version'),
  },
  {
    tag: 'promtool',
    what: 'promtool',
    howToGet:
      "install Debian's prometheus, or go install github.com/prometheus/prometheus/cmd/promtool",
    isThere: runs('promtool', '--version'),
  },
  {
    tag: 'podman',
    what: 'podman, as root',
    howToGet:
      'install buildah, podman, podman-compose, runc, netavark, aardvark-dns, iptables and mmdebstrap, and run as root',
    isThere:
      process.getuid?.() === 0 &&
      runs('podman-compose', '--version') &&
      runs('mmdebstrap', '--version'),
  },
  {
    tag: 'linux',
    what: 'Linux',
    howToGet: 'run on Linux',
    isThere: process.platform === 'linux',
  },
];
