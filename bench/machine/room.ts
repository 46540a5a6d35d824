/** How many parked calls the limits of this machine admit. */
import { readFileSync } from 'node:fs';
import type { OpenFiles } from './open-files.ts';

/** `null` stands for what cannot be read. */
export interface Room {
  readonly openFiles: OpenFiles;
  /** Local ports for the connections to one address and port. */
  readonly ports: { readonly first: number; readonly last: number } | null;
  readonly availableBytes: number | null;
  /** Above which the kernel refuses memory to sockets of TCP. */
  readonly tcpBytes: number | null;
}

/** What so many parked calls take. */
export interface Plan {
  readonly calls: number;
  /** Processes of the gateway, which share the calls. */
  readonly gateways: number;
  /** Upstream servers with an address each, which share the calls. */
  readonly upstreams: number;
  readonly isReleased: boolean;
  /** Memory for each call, of all processes and the kernel; without it an estimate that includes a client that remembers all calls. */
  readonly bytesEach?: number;
}

/** A held call has its own stream and the standalone one of its session. */
const SOCKETS_EACH = 2;
/** Connections that the gateway keeps or opens meanwhile, and its other files. */
const OTHER_SOCKETS = 1_000;
/** Of gateway, upstream and kernel together. */
const HELD_BYTES = 160 * 1_024;
const RELEASED_BYTES = 24 * 1_024;
const PAGE_BYTES = 4_096;

/** Reads the limits of the kernel that can be in the way. */
export function readRoom(openFiles: OpenFiles): Room {
  const ports = numbers('/proc/sys/net/ipv4/ip_local_port_range');
  const [, , pages] = numbers('/proc/sys/net/ipv4/tcp_mem') ?? [];
  const [first, last] = ports ?? [];
  return {
    openFiles,
    ports: first === undefined || last === undefined ? null : { first, last },
    availableBytes: availableBytes(),
    tcpBytes: pages === undefined ? null : pages * PAGE_BYTES,
  };
}

/** @returns how many of the calls there is room for, and why there is room for no more */
export function fit(plan: Plan, room: Room): { readonly calls: number; readonly why: string[] } {
  const { gateways, upstreams, isReleased } = plan;
  const { openFiles, ports, availableBytes: memory } = room;
  const bounds: { readonly calls: number; readonly why: string }[] = [];
  if (!isReleased && openFiles.limit !== null) {
    const perGateway = (openFiles.limit - OTHER_SOCKETS) / SOCKETS_EACH;
    bounds.push({ calls: perGateway * gateways, why: `open files: ${openFiles.limit}` });
    const perUpstream = (openFiles.limit - OTHER_SOCKETS) / SOCKETS_EACH;
    bounds.push({ calls: perUpstream * upstreams, why: `open files: ${openFiles.limit}` });
  }
  if (!isReleased && ports !== null) {
    const perUpstream = (ports.last - ports.first + 1 - OTHER_SOCKETS) / SOCKETS_EACH;
    bounds.push({
      calls: perUpstream * upstreams,
      why: `local ports: ${ports.first} to ${ports.last}`,
    });
  }
  if (memory !== null) {
    const each = plan.bytesEach ?? (isReleased ? RELEASED_BYTES : HELD_BYTES);
    const mebibytes = Math.round(memory / 2 ** 20);
    bounds.push({ calls: memory / each, why: `available memory: ${mebibytes} MiB` });
  }
  const fewest = Math.min(plan.calls, ...bounds.map(({ calls }) => calls));
  const calls = Math.max(0, Math.floor(fewest));
  const reasons = bounds.filter((bound) => bound.calls < plan.calls).map(({ why }) => why);
  return { calls, why: [...new Set(reasons)] };
}

/** How many files a process must be able to open to hold so many calls. */
export function filesFor(calls: number): number {
  return SOCKETS_EACH * calls + OTHER_SOCKETS;
}

/** Says the limits in a line each. */
export function describeRoom({
  openFiles,
  ports,
  availableBytes: memory,
  tcpBytes,
}: Room): string[] {
  const mebibytes = (bytes: number | null) =>
    bytes === null ? 'unknown' : `${Math.round(bytes / 2 ** 20)} MiB`;
  const refused =
    openFiles.problem === null ? '' : `, ${openFiles.needed} were asked for: ${openFiles.problem}`;
  return [
    `Open files of a process: ${openFiles.limit ?? 'unknown'}${refused}.`,
    `Local ports to one address: ${ports === null ? 'unknown' : `${ports.first} to ${ports.last}`}.`,
    `Available memory: ${mebibytes(memory)}; for sockets of TCP: ${mebibytes(tcpBytes)}.`,
  ];
}

function availableBytes(): number | null {
  const text = read('/proc/meminfo');
  const kibibytes = text === null ? undefined : /^MemAvailable: +(\d+) kB$/m.exec(text)?.[1];
  return kibibytes === undefined ? null : Number(kibibytes) * 1_024;
}

function numbers(path: string): number[] | null {
  return read(path)?.trim().split(/\s+/).map(Number) ?? null;
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
