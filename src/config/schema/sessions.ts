/** The keys of `routes[].sessions`: whose session a call uses, and how many there are. */
import { z } from 'zod';
import {
  choice,
  count,
  duration,
  orNull,
  section,
  text,
  wholeNumber,
  HEADER_NAME,
} from './fields.ts';

export const MAX_SESSIONS = 20_000;
/** Each takes memory on the machine of the gateway. */
export const MAX_PROCESSES = 100;

const key = section({
  header: orNull(
    text(HEADER_NAME, 'the name of an HTTP header', 'header name').describe(
      'The request header that tells the conversations of one client apart: each value has sessions of its own.',
    ),
  ),
})
  .prefault({})
  .describe(
    'What tells the conversations of one client apart, such as an id of an agent platform.',
  );

const queue = section({
  wait: duration(
    '1m',
    '0s',
    '1h',
    'How long a call waits. Then it fails with `upstream_busy`, before anything was sent.',
  ),
})
  .prefault({})
  .describe('Calls that wait for another call of their session, or for a session.');

export const sessions = section({
  scope: orNull(
    z
      .enum(['principal', 'call', 'shared'], { error: 'one of principal, call, shared' })
      .meta({ title: '`principal`, `call`, `shared`' })
      .describe(
        'Who shares an upstream session. Default: calls of a `principal` with the same client, capabilities and (without `identity`) credentials; anonymous callers of an open listener get one per `call`.',
      ),
  ),
  key,
  concurrency: choice(
    ['auto', 'together', 'separate', 'queue'],
    'auto',
    'How concurrent calls of one session run: `together`, one after the other (`queue`), or each in a session of its own (`separate`). `auto`: together, but tools that ask run one after the other if the questions of the server name no call.',
  ),
  idleTimeout: duration(
    '30m',
    '0s',
    '1d',
    'How long an idle session is kept open for the next call.',
  ),
  max: orNull(
    wholeNumber({ min: 1, max: 1_000_000 }, 1).describe(
      `The maximum number of sessions of the route. Default: ${MAX_SESSIONS}; over stdio, where each is a process, ${MAX_PROCESSES}. Beyond it, the session that was idle for the longest time ends. \`1\`: calls of different callers run one at a time, for a server that can have one session only.`,
    ),
  ),
  maxPerPrincipal: count(
    100,
    { min: 1, max: 1_000_000 },
    'The maximum number of sessions of one principal, over all its clients and conversations.',
  ),
  queue,
})
  .prefault({})
  .describe('Sessions with the legacy server.');
