/** The keys of a route that say how calls run, wait for answers, and survive. */
import { z } from 'zod';
import { choice, count, duration, durationOrOff, flag, orNull, section, text } from './fields.ts';

export const sessions = section({
  scope: orNull(
    z
      .enum(['principal', 'call', 'shared'], { error: 'one of principal, call, shared' })
      .meta({ title: '`principal`, `call`, `shared`' })
      .describe(
        'Who shares an upstream session. Left out: one per `call` for anonymous callers, one per `principal` for others.',
      ),
  ),
  idleTimeout: duration('5m', '0s', '1d', 'How long an idle session is kept for the next call.'),
  maxIdle: count(8, { min: 0, max: 10_000 }, 'How many idle sessions are kept.'),
})
  .prefault({})
  .describe('Sessions with the legacy server.');

export const calls = section({
  maxDuration: duration(
    '1h',
    '1s',
    '7d',
    'How long the server may work on a call while a client is attached.',
  ),
  maxHold: durationOrOff(
    'off',
    '1s',
    '1d',
    'After this long without an outcome the client is told to call again, so that no connection outlives the timeout of a load balancer. Its calls attach again; each takes one of `parking.maxRounds`.',
  ),
})
  .prefault({})
  .describe('Calls that the server works on.');

export const parking = section({
  ttl: duration('10m', '1s', '7d', 'How long one round of questions may wait for its answers.'),
  callTtl: duration('1h', '1s', '7d', 'How long a call may take over all its rounds.'),
  maxRounds: count(10, { min: 1, max: 1000 }, 'How many rounds of questions a call may have.'),
  redeliver: duration(
    '2m',
    '0s',
    '1h',
    'How long an outcome is kept for a retry that is sent twice.',
  ),
  release: choice(
    ['never', 'when-resumable'],
    'never',
    'Whether a parked call is let go at once, so that it takes no memory and no connection, where the server keeps its events and any replica can read on. `mrtr-gateway probe` tells whether it does. Needs `continuation.reattach`.',
  ),
})
  .prefault({})
  .describe('Calls that wait for answers.');

export const continuation = section({
  reattach: flag(
    true,
    'Whether a call whose replica is gone is read on by another one, where the server keeps its events.',
  ),
  replay: section({
    tools: z
      .array(z.string({ error: 'the name of a tool' }).min(1, { error: 'the name of a tool' }), {
        error: 'a list of tool names',
      })
      .meta({ title: 'list of names' })
      .prefault([])
      .describe(
        'Tools that may be called anew when a call is lost. Their side effects may then happen twice.',
      ),
    annotated: flag(
      false,
      'Whether tools that the server annotates as read-only or idempotent may be called anew as well.',
    ),
  })
    .prefault({})
    .describe(
      'Calls that are made anew when nothing else can save them: the questions that they repeat are answered from what was answered before.',
    ),
})
  .prefault({})
  .describe('What becomes of a parked call whose replica or whose server lost it.');

export const tools = section({
  parameterHeaders: choice(
    ['strip', 'validate'],
    'strip',
    'What becomes of `x-mcp-header` annotations: `strip` takes them out, so that clients send no such headers, which no legacy server reads; `validate` leaves them and checks the headers of every call against its arguments, for proxies that route on them.',
  ),
})
  .prefault({})
  .describe('How tools of the server are shown to clients.');

export const caching = section({
  listTtl: duration(
    '0s',
    '0s',
    '1d',
    'How long clients may keep lists of tools, prompts and resources.',
  ),
  resourceTtl: duration('0s', '0s', '1d', 'How long clients may keep a resource that they read.'),
  scope: choice(
    ['private', 'public'],
    'private',
    'Who may share what is kept: `public` only where every caller is shown the same.',
  ),
  serveLists: flag(
    false,
    'Whether the gateway itself answers lists from what it got last, for `caching.listTtl` and until the server says that they changed.',
  ),
})
  .prefault({})
  .describe('How long results may be kept.');

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
      'Keys of `inputRequests` by tool, prompt or resource, in the order in which it asks.',
    ),
  keysFromStringIds: flag(
    true,
    "Whether a request id of the server's that is a plain name becomes the key of its question.",
  ),
  strictCapabilities: flag(
    false,
    'Whether a question whose capability the client did not declare ends the call at once.',
  ),
  urlVisitWait: duration(
    '10s',
    '0s',
    '10m',
    "How long to wait for the server's word that a URL was visited before a call that failed with -32042 is made again.",
  ),
})
  .prefault({})
  .describe('How questions of the server are shown to clients.');
