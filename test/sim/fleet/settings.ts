/** How the gateways of a history are configured, where that is not the usual. */
import { choose } from '../engine/random.ts';

export interface GatewaySettings {
  /** Whether callers have tokens that the gateway verifies, and whether those go on to the server. */
  readonly identity: 'none' | 'jwt' | 'jwt-forwarded';
  /** Whether calls share the session of their caller, or each has one. */
  readonly concurrency: 'auto' | 'separate';
  /** When a parked call is left to its server. */
  readonly release: 'never' | 'when-resumable' | 'auto';
  /** How many calls a process parks. */
  readonly maxParked: number | null;
  /** How many sessions a process has. */
  readonly maxSessions: number | null;
  /** How often it pings sessions in which a call waits. */
  readonly pingInterval: string | null;
  /** How long a response may keep its client waiting. */
  readonly maxHold: string | null;
}

export const USUAL_SETTINGS: GatewaySettings = {
  identity: 'none',
  concurrency: 'auto',
  release: 'never',
  maxParked: null,
  maxSessions: null,
  pingInterval: null,
  maxHold: null,
};

export function settingsOf(seed: number): GatewaySettings {
  const name = `settings:${seed}`;
  if (choose(`${name}:usual`, [true, false])) return USUAL_SETTINGS;
  return {
    identity: choose(`${name}:identity`, ['none', 'none', 'jwt', 'jwt-forwarded']),
    concurrency: choose(`${name}:concurrency`, ['auto', 'auto', 'separate']),
    release: choose(`${name}:release`, ['never', 'never', 'when-resumable', 'auto']),
    maxParked: choose(`${name}:parked`, [null, 2]),
    maxSessions: choose(`${name}:sessions`, [null, null, 3]),
    pingInterval: null,
    maxHold: null,
  };
}

/** Each setting less. */
export function simplerSettings(settings: GatewaySettings): GatewaySettings[] {
  return (Object.keys(USUAL_SETTINGS) as (keyof GatewaySettings)[])
    .filter((setting) => settings[setting] !== USUAL_SETTINGS[setting])
    .map((setting) => ({ ...settings, [setting]: USUAL_SETTINGS[setting] }));
}
