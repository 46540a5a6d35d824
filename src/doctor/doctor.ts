/** Looks at all that a gateway with a configuration will meet: at the same time, each look with a bound, and each failing alone. */
import type { Config } from '../config/schema.ts';
import { inBackground } from '../lib/background.ts';
import { sleep } from '../lib/clock.ts';
import { Semaphore } from '../lib/semaphore.ts';
import { messageOf } from '../lib/shown-text.ts';
import { finder, type Finding } from './finding.ts';
import { checkIngress } from './ingress.ts';
import { checkCertificates, checkJwks } from './keys.ts';
import {
  checkClock,
  checkOpenFiles,
  checkPort,
  runningGateway,
  type WantedPort,
} from './machine.ts';
import { checkRedis } from './redis.ts';
import { checkRoute, type RouteLook } from './routes.ts';

export interface Look extends RouteLook {
  readonly config: Config;
  /** What is valid and risky in it, a line each. */
  readonly risks: readonly string[];
  /** Fields whose addresses move to the next free port. */
  readonly movable: readonly string[];
  /** How many files this process can open, `null` if unlimited, and how many the limits can need. */
  readonly openFiles: { readonly limit: number | null; readonly needed: number };
}

/** Probes at a time: each can be a process. */
const PROBES = 8;
/** How long any other look can take, in ms; a probe has its timeout, and some time to end its session. */
const LOOK_MS = 15_000;

type Work = Finding | readonly Finding[] | Promise<Finding | readonly Finding[]>;

/** Begins all checks. @returns what each finds, in the order in which it is shown. None of them rejects. */
export function examine(look: Look): readonly Promise<readonly Finding[]>[] {
  const { config, risks, movable, openFiles, clock, env } = look;
  const { routes, redis, identity, relay, edge } = config;
  const turns = new Semaphore(PROBES);
  const probed = routes.map((route) => turns.take(() => checkRoute(route, look)));
  for (const each of probed) inBackground(each.catch(() => {}));
  const running = runningGateway(config.admin);
  const ports: WantedPort[] = (
    [
      ['listen', config.listen],
      ['admin', config.admin],
      ['relay.listen', relay?.listen ?? null],
    ] as const
  ).flatMap(([setting, at]) =>
    at === null ? [] : [{ setting, at, canMove: movable.includes(setting) }],
  );
  const clocks = async () => {
    const found = await Promise.allSettled(probed);
    const others = found.flatMap((one, index) => {
      const aheadMs = one.status === 'fulfilled' ? one.value.report?.clockAheadMs : null;
      return aheadMs === null || aheadMs === undefined
        ? []
        : [{ of: `the server of ${routes[index]?.path}`, aheadMs }];
    });
    return checkClock(others);
  };
  const bounded = async (check: string, of: string | null, work: () => Work) => {
    const late = sleep(clock, LOOK_MS).then(() =>
      finder(check, of).failed(`no result within ${LOOK_MS / 1_000} s`),
    );
    return guarded(check, of, () => Promise.race([work(), late]));
  };
  return [
    guarded('configuration', null, () => configurationOf(config, risks)),
    ...probed.map((each, index) =>
      guarded('route', routes[index]?.path ?? null, () => each.then(({ finding }) => finding)),
    ),
    ...(redis === null ? [] : [bounded('redis', null, () => checkRedis(redis, clock))]),
    ...(identity.source === 'jwt'
      ? [bounded('jwks', null, () => checkJwks(identity.jwks, clock))]
      : []),
    guarded('clock', null, clocks),
    guarded('open files', null, () => checkOpenFiles(openFiles.limit, openFiles.needed)),
    ...ports.map((port) => bounded('port', port.setting, () => checkPort(port, running))),
    bounded('certificate', null, () => checkCertificates(config, env, clock.now())),
    ...routes.map((route, index) =>
      guarded('clients', route.path, async () =>
        checkIngress(
          route,
          (await probed[index]?.catch(() => null))?.report ?? null,
          edge.legacyClients,
        ),
      ),
    ),
  ];
}

function configurationOf({ routes }: Config, risks: readonly string[]): readonly Finding[] {
  const { ok, warning } = finder('configuration');
  const valid = ok(`valid, with ${routes.length} route${routes.length === 1 ? '' : 's'}`);
  return risks.length === 0 ? [valid] : risks.map((line) => warning(line.replace('warning: ', '')));
}

/** A look that fails in a way that nobody thought of is a finding, too. */
async function guarded(
  check: string,
  of: string | null,
  work: () => Work,
): Promise<readonly Finding[]> {
  try {
    const found = await work();
    return Array.isArray(found) ? (found as readonly Finding[]) : [found as Finding];
  } catch (error) {
    return [finder(check, of).failed(messageOf(error))];
  }
}
