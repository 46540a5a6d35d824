/**
 * Namespaces of Linux, which `unshare` of util-linux makes without any right: a network with nothing but loopback, and processes that
 * end with the first of them.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';

const LOOPBACK_ALONE = ['unshare', '--map-root-user', '--net', 'sh', '-c'] as const;
const UP = 'ip link set lo up && exec "$@"';

/** Whether this machine can do it; not in most containers, nor on other systems. */
export function canIsolate(): boolean {
  const [command, ...args] = LOOPBACK_ALONE;
  return spawnSync(command, [...args, UP, 'sh', ...withItsProcesses(['true'])]).status === 0;
}

/** Runs a command with loopback as its whole network. @returns its exit code */
export async function onLoopbackAlone(wanted: readonly string[]): Promise<number> {
  const [command, ...args] = LOOPBACK_ALONE;
  const child = spawn(command, [...args, UP, 'sh', ...wanted], { stdio: 'inherit' });
  const [code] = (await once(child, 'exit')) as [number | null];
  return code ?? 1;
}

/** @returns a command that ends whatever it started when it ends, such as daemons in sessions of their own */
export function withItsProcesses(command: readonly string[]): [string, ...string[]] {
  return ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', ...command];
}
