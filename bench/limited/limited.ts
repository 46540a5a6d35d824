/**
 * The gateway as the image runs it, with a limit of memory that the kernel enforces: how many calls it
 * holds, and whether it goes on answering.
 */
import { fileURLToPath } from 'node:url';
import { Connection } from '../clients/load.ts';
import { askForOpenFiles } from '../machine/open-files.ts';
import { fit, filesFor, readRoom } from '../machine/room.ts';
import { MemoryGroup } from '../machine/memory-group.ts';
import type { LimitedOptions } from '../sizes.ts';
import { askingConnections } from '../parked/parking.ts';
import { Child } from '../processes/child.ts';
import { pathOfRoute, startGateway } from '../processes/gateway-process.ts';
import { imageRun, type ImageRun } from '../processes/image.ts';
import { startUpstreams, type Upstreams } from '../processes/upstreams.ts';
import { answerParked, flood, keepCalling, type Flooded, type Served } from './tolerant-load.ts';
import { Watch } from './watch.ts';

export interface LimitedResult {
  readonly limitBytes: number;
  /** Why nothing was run; `null` if it was. */
  readonly problem: string | null;
  /** How the image runs the program. */
  readonly image: ImageRun;
  readonly runs: readonly LimitedRun[];
}

export interface LimitedRun {
  /** `limits.maxParkedCalls`; `null` without a limit. */
  readonly maxParkedCalls: number | null;
  readonly flooded: Flooded;
  /** The calls without questions afterwards; `null` if the process had ended. */
  readonly served: Served | null;
  /** How many of the parked calls that were answered at last came to their results. */
  readonly answered: { readonly right: number; readonly tried: number } | null;
  readonly highestRssBytes: number;
  /** With what the kernel uses for the process. */
  readonly peakBytes: number | null;
  readonly slowestHealthMs: number;
  readonly unansweredHealth: number;
  /** How the process ended; `null` if it survived. */
  readonly end: string | null;
}

const UPSTREAMS = 3;
const CONNECTIONS = 22;
const LOAD_CONNECTIONS = 32;

export async function measureLimited(
  folder: string,
  options: LimitedOptions,
  done: (share: number) => void,
): Promise<LimitedResult> {
  const image = imageRun();
  const { limitBytes, mostParked, sizedParked } = options;
  const room = readRoom(askForOpenFiles(filesFor(mostParked)));
  const plan = { calls: mostParked, gateways: 1, upstreams: UPSTREAMS, isReleased: false };
  const most = fit(plan, room).calls;
  const runs: LimitedRun[] = [];
  const upstreams = await startUpstreams(UPSTREAMS);
  try {
    for (const maxParkedCalls of [null, sizedParked]) {
      const group = MemoryGroup.make(limitBytes);
      if (typeof group === 'string') return { limitBytes, problem: group, image, runs };
      try {
        const tried = maxParkedCalls === null ? most : maxParkedCalls + options.beyond;
        runs.push(
          await limitedRun(group, image, upstreams, folder, options, maxParkedCalls, tried),
        );
      } finally {
        group.remove();
      }
      done(runs.length / 2);
    }
    return { limitBytes, problem: null, image, runs };
  } finally {
    await upstreams.stop();
  }
}

async function limitedRun(
  group: MemoryGroup,
  image: ImageRun,
  { origins: [first, ...others] }: Upstreams,
  folder: string,
  { floodMs, loadMs }: LimitedOptions,
  maxParkedCalls: number | null,
  tried: number,
): Promise<LimitedRun> {
  const launch = (program: URL, args: readonly string[]) => {
    const node = [process.execPath, ...image.flags, fileURLToPath(program), ...args];
    const [command, ...rest] = group.command(node);
    return Child.program('the limited gateway', command, rest, image.env);
  };
  const { child, origin, adminOrigin } = await startGateway({
    upstreamUrl: `${first}/mcp`,
    moreUpstreamUrls: others.map((other) => `${other}/mcp`),
    folder,
    launch,
    ...(maxParkedCalls === null ? {} : { maxParkedCalls }),
  });
  const watch = new Watch(child, adminOrigin);
  const asking = Array.from({ length: UPSTREAMS }, (_, route) =>
    askingConnections(origin, pathOfRoute(route), CONNECTIONS),
  ).flat();
  const plain = Array.from({ length: LOAD_CONNECTIONS }, () => new Connection(origin, '/mcp'));
  try {
    const { flooded, calls } = await flood(child, asking, tried, floodMs);
    const served = child.ended ? null : await keepCalling(child, plain, loadMs);
    const answered = child.ended ? null : await answerParked(calls);
    return {
      maxParkedCalls,
      flooded,
      served,
      answered,
      highestRssBytes: watch.highestRssBytes,
      peakBytes: group.peakBytes(),
      slowestHealthMs: watch.slowestHealthMs,
      unansweredHealth: watch.unansweredHealth,
      end: endOf(group, child),
    };
  } finally {
    watch.stop();
    await Promise.all([...asking, ...plain].map((one) => one.close()));
    await child.stop();
  }
}

/** Node.js aborts at the limit of its heap, which is lower than that of the group. */
function endOf(group: MemoryGroup, child: Child): string | null {
  if (group.hasKilled()) return 'killed by the kernel, out of memory';
  return child.end === 'SIGABRT' ? 'aborted by Node.js, out of heap' : child.end;
}
