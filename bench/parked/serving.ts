/**
 * Whether a gateway that holds parked calls serves others as fast as one that holds none. Both are loaded
 * in turns, for a moment each, so that a machine that is busy for a while slows both.
 */
import { rotated } from '../calls/calls.ts';
import { Connection, load } from '../clients/load.ts';
import { modernCall } from '../clients/messages.ts';
import type { ServingOptions } from '../sizes.ts';
import { median, spreadOf, type Spread } from '../report/statistics.ts';

/**
 * Takes the ratios of the mean rate of some gateways to that of the twin, one in each round.
 * @param measured where the gateways listen in which calls are parked
 * @param twin where the one listens in which none are
 */
export async function ratesToTwin(
  measured: readonly string[],
  twin: string,
  { slices, sliceMs, warmUpMs }: ServingOptions,
): Promise<number[]> {
  const all = [twin, ...measured].map(
    (origin) => new Connection(origin, '/mcp', (id) => modernCall('echo', id)),
  );
  const [toTwin, ...others] = all;
  try {
    // A garbage collection may have dropped compiled code, and the twin may have had less to compile.
    for (const connection of all) await load([connection], warmUpMs);
    const ratios: number[] = [];
    for (let slice = 0; slice < slices; slice += 1) {
      const rates = new Map<Connection | undefined, number>();
      for (const connection of rotated(all, slice)) {
        rates.set(connection, (await load([connection], sliceMs)).callsPerSecond);
      }
      const sum = others.reduce((total, one) => total + (rates.get(one) ?? NaN), 0);
      ratios.push(sum / others.length / (rates.get(toTwin) ?? NaN));
    }
    return ratios;
  } finally {
    await Promise.all(all.map((connection) => connection.close()));
  }
}

/** The rate while calls are parked to that before, both as ratios to the twin in the same round. */
export function servingOf(before: readonly number[], during: readonly number[]): Spread {
  const usual = median(before);
  return spreadOf(during.map((ratio) => ratio / usual));
}
