/** The keys of a route for calls: how they run, wait for answers, survive failures and become tasks, and how many there can be. */
import { z } from 'zod';
import {
  choice,
  count,
  duration,
  durationOrOff,
  flag,
  section,
  text,
  countOrOff,
  rateOrOff,
} from './fields.ts';
import { rightsFields } from './rights.ts';

export const calls = section({
  maxDuration: duration('1h', '1s', '7d', 'How long a call can run while a client is connected.'),
  maxHold: durationOrOff(
    'off',
    '1s',
    '1d',
    'How long a client connection stays open without an outcome before the client is told to retry, twice in a call at most. For load balancers that end long responses, if neither a longer timeout there nor tasks help; some clients cannot retry so (docs/clients.md).',
  ),
})
  .prefault({})
  .describe('Running calls.');

export const parking = section({
  ttl: duration('10m', '1s', '7d', 'How long one round of questions waits for its answers.'),
  callTtl: duration('1h', '1s', '7d', 'How long a call can take over all its rounds.'),
  maxRounds: count(
    10,
    { min: 1, max: 1000 },
    'The maximum number of rounds of a call with questions. Official clients end a call at the tenth round.',
  ),
  release: choice(
    ['never', 'when-resumable', 'auto'],
    'never',
    '`when-resumable` releases the memory and the connection of a parked call at once if the server gives its events ids. `auto` does so only if this process also saw the server deliver a result on a resumed stream. Needs `continuation.reattach`; `mrtr-gateway probe` shows whether streams can be resumed.',
  ),
})
  .prefault({})
  .describe('Calls that wait for answers.');

export const continuation = section({
  reattach: flag(
    true,
    'Whether another replica resumes a call of a replica that is gone, if the server stores its events or runs the call as a task.',
  ),
  replay: section({
    tools: z
      .array(z.string({ error: 'the name of a tool' }).min(1, { error: 'the name of a tool' }), {
        error: 'a list of tool names',
      })
      .meta({ title: 'list of names' })
      .prefault([])
      .describe(
        'Tools that are called again if a call is lost. Their side effects can then happen twice.',
      ),
    annotated: flag(
      false,
      'Whether tools that the server annotates as read-only or idempotent are called again as well.',
    ),
  })
    .prefault({})
    .describe('Replay of lost calls: questions that the tool repeats get the earlier answers.'),
})
  .prefault({})
  .describe('What happens to a parked call that its replica or its server lost.');

export const tools = section({
  ...rightsFields('tools'),
  parameterHeaders: choice(
    ['strip', 'validate'],
    'strip',
    '`strip` removes `x-mcp-header` annotations, so that clients do not send headers that no legacy server reads. `validate` keeps them and compares the headers with the arguments, for proxies that route on them.',
  ),
  schemas: choice(
    ['as-is', 'compatible'],
    'as-is',
    '`compatible` takes the `$schema` of draft-06, draft-07 or 2019-09 off schemas that mean the same in 2020-12, for modern clients that drop such tools. `probe` names the tools whose schemas stay as they are; what is passed through stays so, too.',
  ),
})
  .prefault({})
  .describe('Who may use which tools, and how tools are presented.');

export const prompts = section(rightsFields('prompts'))
  .prefault({})
  .describe('Who may use which prompts.');

export const resources = section(rightsFields('resources'))
  .prefault({})
  .describe('Who may read which resources, and be told of their changes.');

export const caching = section({
  listTtl: duration(
    '0s',
    '0s',
    '1d',
    'How long clients and the gateway cache lists of tools, prompts and resources, unless the server reports a change.',
  ),
  resourceTtl: duration('0s', '0s', '1d', 'How long clients can cache a resource.'),
  scope: choice(
    ['private', 'public'],
    'private',
    'Who can share a cached result. Use `public` only if every caller sees the same.',
  ),
})
  .prefault({})
  .describe('How long results can be cached.');

export const questions = section({
  keyNames: z
    .record(
      z.string(),
      z.array(
        text(
          /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/,
          'a name (letters, digits, "_", "." and "-", not beginning with a digit)',
          'name',
        ),
        { error: 'a list of names' },
      ),
      { error: 'a map of tool names to lists of names' },
    )
    .meta({ title: 'map of names to lists of names' })
    .prefault({})
    .describe(
      'Keys of `inputRequests` by tool, prompt or resource, in the order of its questions. `inputResponses` of a first request answer later questions under such keys, but never URLs.',
    ),
})
  .prefault({})
  .describe('Presentation of questions.');

const toolLimits = section({
  rate: rateOrOff('How often the tool can be called.'),
  ratePerPrincipal: rateOrOff('How often one principal can call the tool.'),
  maxRunning: countOrOff(
    'off',
    { min: 1, max: 1_000_000 },
    'The maximum number of running calls of the tool in one gateway. Parked calls do not count.',
  ),
});

export const routeLimits = section({
  rate: rateOrOff(
    'The maximum rate of requests of all clients, with `redis` over all replicas. Retries of bridged calls, task requests and `server/discover` do not count.',
  ),
  ratePerPrincipal: rateOrOff(
    'The maximum rate of requests of one principal. Anonymous callers count as one principal.',
  ),
  tools: z
    .record(z.string(), toolLimits, { error: 'a map of tool names to limits' })
    .meta({ title: 'map of tool names to `rate`, `ratePerPrincipal` and `maxRunning`' })
    .prefault({})
    .describe('Limits of single tools, besides those of the route.'),
})
  .prefault({})
  .describe(
    'Limits on what clients can ask of the route. A request beyond them is not sent to the server.',
  );

const POLICIES = ['never', 'slow', 'interactive', 'always'] as const;

export const tasks = section({
  promote: choice(
    POLICIES,
    'slow',
    'When a tool call becomes a task, for clients that declare tasks. `slow`: after `tasks.after`, or when the server runs it as a task. `interactive`: also when the server asks. `always`: at once.',
  ),
  tools: z
    .record(z.string(), z.enum(POLICIES, { error: `one of ${POLICIES.join(', ')}` }), {
      error: 'a map of tool names to never, slow, interactive or always',
    })
    .meta({ title: 'map of names to policies' })
    .prefault({})
    .describe('`tasks.promote` for single tools.'),
  after: duration('30s', '0s', '1h', 'How long a client waits before its call becomes a task.'),
  ttl: duration(
    '1h',
    '1s',
    '30d',
    'How long the result and the questions of a task can be fetched after its creation. A shorter life at the server counts.',
  ),
})
  .prefault({})
  .describe('Tasks, which clients poll instead of waiting.');
