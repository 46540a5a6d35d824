/** This machine: its clock, how many files it lets a process open, and the ports that the gateway wants. */
import { expectFree } from '../lib/listen.ts';
import { formatAddress, type ListenAddress } from '../lib/address.ts';
import { StartFailure } from '../lib/program.ts';
import { liveSnapshot } from '../ops/live/snapshot.ts';
import { finder, type Finding } from './finding.ts';

/** Tokens are refused that are off by more than half a minute, and logs of machines no longer fit together long before that. */
const TOLERATED_MS = 10_000;

/** A clock that is not ours. */
export interface OtherClock {
  readonly of: string;
  /** How far it is ahead of the clock of this machine, in ms. */
  readonly aheadMs: number;
}

/** Compares the clock of this machine with others. One of them that agrees is enough: the others can be wrong. */
export function checkClock(others: readonly OtherClock[]): Finding {
  const { ok, warning } = finder('clock');
  const [nearest, ...rest] = others.toSorted((a, b) => Math.abs(a.aheadMs) - Math.abs(b.aheadMs));
  if (nearest === undefined) return ok('nothing to compare it with: no server told its time');
  const text = `${differenceOf(-Math.round(nearest.aheadMs))} ${nearest.of}`;
  if (Math.abs(nearest.aheadMs) <= TOLERATED_MS) return ok(text);
  const all = rest.length === 0 ? '' : ', and further from those of all others';
  return warning(`${text}${all}: set it with NTP, since tokens are refused by the clock`);
}

/** Says how far a clock is from another one, as a phrase before its name. */
export function differenceOf(aheadMs: number): string {
  const ms = Math.abs(aheadMs);
  const shown = ms < 1_000 ? `${ms} ms` : `${(ms / 1_000).toFixed(1)} s`;
  return ms === 0 ? 'equal to that of' : `${shown} ${aheadMs > 0 ? 'ahead of' : 'behind'} that of`;
}

/** Compares the limit of open files with what the configured limits can need. */
export function checkOpenFiles(limit: number | null, needed: number): Finding {
  const { ok, warning } = finder('open files');
  if (limit === null) return ok('unlimited, or not known on this platform');
  const text = `this process can open ${limit}, and the configured limits can need ${needed}`;
  return limit >= needed
    ? ok(text)
    : warning(`${text}: raise ulimit -n (LimitNOFILE of systemd), or lower limits`);
}

export interface WantedPort {
  /** The field of the configuration. */
  readonly setting: string;
  readonly at: ListenAddress;
  /** Whether the gateway takes the next free port instead. */
  readonly canMove: boolean;
}

/** How long a gateway that runs has to show itself, in ms. */
const SHOWN_WITHIN_MS = 2_000;

/** Tells whether a port is free. @param running resolves to the version of the gateway that runs here; `null` if none is known */
export async function checkPort(
  { setting, at, canMove }: WantedPort,
  running: Promise<string | null>,
): Promise<Finding> {
  const { ok, warning, failed } = finder('port', setting);
  const address = formatAddress(at);
  if (at.port === 0) return ok('any free port');
  try {
    await expectFree(at, setting);
    return ok(`${address} is free`);
  } catch (error) {
    if (!(error instanceof StartFailure)) throw error;
    if (error.code !== 'port_in_use') return failed(error.message);
    const version = await running;
    if (version !== null) {
      return ok(
        `${address} is in use, and mrtr-gateway ${version} runs here: it is most likely its`,
      );
    }
    if (canMove) return warning(`${address} is in use: the gateway will take the next free port`);
    return failed(error.message);
  }
}

/** Asks an admin listener for the version of its gateway. @returns `null` if none answers there */
export async function runningGateway(admin: ListenAddress | null): Promise<string | null> {
  if (admin === null || admin.port === 0) return null;
  const own: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };
  const at = formatAddress({ ...admin, host: own[admin.host] ?? admin.host });
  try {
    const signal = AbortSignal.timeout(SHOWN_WITHIN_MS);
    const response = await fetch(`http://${at}/live.json`, { signal, redirect: 'error' });
    return liveSnapshot.parse(await response.json()).version;
  } catch {
    return null;
  }
}
