/** Loads a gateway from a process of its own, so that the client that measures is not slowed by it: with all it can take, or at a rate. */
import { setTimeout as pause } from 'node:timers/promises';
import { checkEcho, Connection, load } from '../clients/load.ts';
import { modernCall } from '../clients/messages.ts';

/** As many as the calls of the benchmark have when they take the rate of a process. */
const FLOODING = 32;
/** More, so that calls that wait do not hold back those that are due. */
const PACING = 96;

const [origin] = process.argv.slice(2);
if (origin === undefined) throw new Error('no origin was given');
const connections = Array.from(
  { length: PACING },
  () => new Connection(origin, '/mcp', (id) => modernCall('echo', id, {}, 'load')),
);
let isPacing = false;
let ended: Promise<unknown> = Promise.resolve();
let calls = 0;
let served = 0;

/** Calls as often as this in a second, whatever the calls take. */
async function keepPace(connection: Connection, perSecond: number, startedAt: number) {
  while (isPacing) {
    calls += 1;
    const dueInMs = startedAt + (calls * 1_000) / perSecond - performance.now();
    if (dueInMs > 0) await pause(dueInMs);
    if (!isPacing) return;
    checkEcho(await connection.next());
    served += 1;
  }
}

process.on('message', (asked) => {
  if (typeof asked !== 'object' || asked === null) return;
  if ('floodMs' in asked) {
    void load(connections.slice(0, FLOODING), Number(asked.floodMs)).then(({ callsPerSecond }) =>
      process.send?.({ rate: callsPerSecond }),
    );
  } else if ('pace' in asked) {
    const [perSecond, startedAt] = [Number(asked.pace), performance.now()];
    isPacing = true;
    [calls, served] = [0, 0];
    ended = Promise.all(connections.map((one) => keepPace(one, perSecond, startedAt)));
    process.send?.({ pacing: true });
  } else if ('stop' in asked) {
    isPacing = false;
    void ended.then(() => process.send?.({ served }));
  }
});
process.channel?.ref();
process.send?.({ ready: true });
