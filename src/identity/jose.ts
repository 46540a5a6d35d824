/** jose, which takes long to load. Only a gateway that checks tokens needs it. */
import type * as Jose from 'jose';

let loading: Promise<typeof Jose> | undefined;

/** Loads the library once: to import a module that is there takes 13 us, and would be done for each token. */
export function loadJose(): Promise<typeof Jose> {
  return (loading ??= import('jose'));
}
