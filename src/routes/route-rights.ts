/** The rules of a route on who may use which tools, prompts and resources: each refusal is counted, and told to the operator. */
import type { RouteConfig } from '../config/schema.ts';
import { LruMap } from '../lib/containers.ts';
import { asOneLine } from '../lib/shown-text.ts';
import { hasRights, withoutHidden, type Rights } from '../limits/rights.ts';
import { denialOf, type Denial } from '../limits/targets.ts';
import type { Caller } from '../model/request.ts';
import { throttledLog } from '../ops/throttled-log.ts';
import { withoutSecrets } from '../ops/tracing.ts';
import type { JsonObject } from '../protocol/json.ts';
import { principalName } from '../seal/principal-name.ts';
import type { SharedServices } from './shared-services.ts';

type Services = Pick<SharedServices, 'clock' | 'log' | 'metrics' | 'sealKeys'>;

/** How many callers have lines of their own in the log. Only those whose name was verified: others can make names up. */
const MAX_NAMED = 1_000;
const MAX_NAME_CHARACTERS = 200;

export class RouteRights {
  readonly #route: string;
  readonly #rights: Rights;
  readonly #services: Services;
  readonly #lines = new LruMap<string, (refused: Refused) => void>(MAX_NAMED);

  constructor({ id, tools, prompts, resources }: RouteConfig, services: Services) {
    this.#route = id;
    this.#rights = { tools, prompts, resources };
    this.#services = services;
  }

  /**
   * Decides whether a caller may send a message, before anything of it reaches the server.
   * @param message its `method` and its `params` at least, without duplicate members
   * @returns `null` if it may
   */
  denialOf(caller: Caller, message: JsonObject): Denial | null {
    const denial = denialOf(this.#rights, caller, message);
    if (denial === null) return null;
    this.#services.metrics.denied(this.#route, denial.type);
    this.#tell(caller, denial);
    return denial;
  }

  /** Leaves out of the result of a list what a caller may not use. @returns the result itself if that is nothing */
  shown(caller: Caller, result: JsonObject): JsonObject {
    return withoutHidden(this.#rights, caller, result);
  }

  #tell(caller: Caller, denial: Denial): void {
    const { clock, log } = this.#services;
    const key = caller.kind === 'verified' ? caller.principalKey : '';
    const line =
      this.#lines.get(key) ??
      throttledLog<Refused>(clock, (latest, requests) =>
        log.event('rights.refused', {
          ...{ route: this.#route, who: this.#whoIs(latest.caller), reason: latest.denial.type },
          ...shownTarget(latest.denial),
          requests,
        }),
      );
    this.#lines.set(key, line);
    line({ caller, denial });
  }

  #whoIs({ principal, principalKey }: Caller): string {
    if (principal === null) return principalKey;
    return principalName(this.#services.sealKeys.ring('audit'), principal);
  }
}

interface Refused {
  readonly caller: Caller;
  readonly denial: Denial;
}

function shownTarget(denial: Denial): { readonly kind: string; readonly name: string } {
  if (!('target' in denial)) return { kind: '', name: '' };
  const { kind, name } = denial.target;
  const shown = kind === 'resource' ? withoutSecrets(name) : name;
  return { kind, name: asOneLine(shown, MAX_NAME_CHARACTERS) };
}

/** Returns the rules of a route; `null` if it has none. */
export function rightsOf(config: RouteConfig, services: Services): RouteRights | null {
  return hasRights(config) ? new RouteRights(config, services) : null;
}
