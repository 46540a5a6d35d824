/** The keys of `routes[].limits`: how much clients can ask of one route. */
import { z } from 'zod';
import { countOrOff, rateOrOff, section } from './fields.ts';

const tool = section({
  rate: rateOrOff('How often the tool can be called.'),
  ratePerPrincipal: rateOrOff('How often one principal can call the tool.'),
  maxRunning: countOrOff(
    'off',
    { min: 1, max: 1_000_000 },
    'The maximum number of calls of the tool whose client waits, in one gateway. Parked calls do not count.',
  ),
});

export const routeLimits = section({
  rate: rateOrOff(
    'The maximum rate of requests of all clients together. Retries of calls, task requests, and `server/discover` do not count, and are never refused. With `redis`, all replicas count together.',
  ),
  ratePerPrincipal: rateOrOff(
    'The maximum rate of requests of one principal. Anonymous callers count as one principal.',
  ),
  tools: z
    .record(z.string(), tool, { error: 'a map of tool names to limits' })
    .meta({ title: 'map of tool names to `rate`, `ratePerPrincipal` and `maxRunning`' })
    .prefault({})
    .describe('Limits of single tools, besides those of the route.'),
})
  .prefault({})
  .describe(
    'Limits on what clients can ask of the route. A request beyond them is not sent to the server.',
  );
