/** Tells the operator of modern clients with a wrong URL: the pass-through hides their mistake from both sides. */
import type { Clock } from '../../lib/clock.ts';
import { limitLog } from '../../limits/admission.ts';
import type { Log } from '../../ops/log.ts';

const MAX_PATH_CHARACTERS = 200;

/**
 * Creates what is to be called for each modern request to a path that no route has. It logs the latest of them.
 * @param paths those of the routes
 */
export function wrongPathLog(
  paths: readonly string[],
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): (path: string) => void {
  let latest = '';
  const report = limitLog<'path'>(clock, (_limit, requests) => {
    log.event('edge.wrong_path', { path: latest, paths: paths.join(', '), requests });
  });
  return (path) => {
    latest = path.slice(0, MAX_PATH_CHARACTERS);
    report('path');
  };
}
