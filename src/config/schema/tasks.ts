/** The keys of a route for tasks. */
import { z } from 'zod';
import { choice, duration, section } from './fields.ts';

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
  pollInterval: duration('1s', '500ms', '10m', 'How often clients are asked to poll a task.'),
})
  .prefault({})
  .describe('Tasks, which clients poll instead of waiting.');
