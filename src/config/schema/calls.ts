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
    'How long a client connection stays open without an outcome. Then the client is told to retry, for load balancers that end long responses: raise their timeout or use tasks first. The retry continues the call. Clients stand that twice in a call at most, and some not at all (docs/clients.md): after that, or while no further call can be parked, the client keeps waiting.',
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
    'Whether a parked call releases its memory and connection at once. `when-resumable`: if the server gives its events ids; `mrtr-gateway probe` shows whether any replica can resume the stream. `auto`: if, in addition, this process has seen the server deliver a result at once on a resumed stream. Needs `continuation.reattach`.',
  ),
})
  .prefault({})
  .describe('Calls that wait for answers.');

export const continuation = section({
  reattach: flag(
    true,
    'Whether another replica resumes a call whose replica is gone, if the server stores its events or runs the call as a task.',
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
    .describe(
      'Replay of lost calls: the tool is called again, and questions that it repeats get the earlier answers.',
    ),
})
  .prefault({})
  .describe('What happens to a parked call that its replica or its server lost.');

export const tools = section({
  ...rightsFields('tools'),
  parameterHeaders: choice(
    ['strip', 'validate'],
    'strip',
    'What happens to `x-mcp-header` annotations. `strip` removes them, so that clients do not send these headers, which no legacy server reads. `validate` keeps them and compares the headers of every call with its arguments, for proxies that route on them.',
  ),
  schemas: choice(
    ['as-is', 'compatible'],
    'as-is',
    'What happens to input and output schemas that name an older dialect of JSON Schema in `$schema`, at which some clients drop a tool, or all. `compatible` takes the name of draft-06, draft-07 or 2019-09 off where each keyword of the schema means the same in 2020-12, the dialect of a schema without a name. Other schemas stay as they are, and `probe` names their tools. Requests that are passed through, and legacy clients, get them as they are.',
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
    'How long clients can cache lists of tools, prompts and resources. For as long, or until the server reports a change, the gateway serves them from a cache of its own.',
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
      "Keys of `inputRequests` by tool, prompt or resource, in the order of its questions. Without one, the server's request id is the key if it is a plain name. `inputResponses` of a first request answer the questions that come later under such keys, if they fit, and never URLs.",
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
    'The maximum number of calls of the tool whose client waits, in one gateway. Parked calls do not count.',
  ),
});

export const routeLimits = section({
  rate: rateOrOff(
    'The maximum rate of requests of all clients together. Retries of calls, task requests, and `server/discover` do not count, and are never refused; a retry for a modern server counts. With `redis`, all replicas count together.',
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
    'When a tool call becomes a task, for clients that declare the extension `io.modelcontextprotocol/tasks`. `slow`: after `tasks.after`, or when the server runs it as a task. `interactive`: as `slow`, and when the server asks something. `always`: at once.',
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
    'How long a task lives, from its creation on. Its result and its questions can be fetched until then. If the server runs the call as a task with a shorter life, that one counts.',
  ),
})
  .prefault({})
  .describe('Tasks, which clients poll instead of waiting.');
