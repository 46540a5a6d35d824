/**
 * The scenarios of the official conformance suite for the tasks extension, in front of a legacy server that knows no tasks.
 * The suite does not score them; this test does.
 * @module-tag long
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import { expect, test } from 'vitest';
import { gatewayBefore } from '../fixtures/gateways/test-gateway.ts';
import {
  askName,
  LegacyServer,
  type LegacyServerOptions,
} from '../fixtures/servers/legacy-server.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';
import { runScenario } from './suite.ts';

const text = (said: string) => [{ type: 'text', text: said }];

/** The tools that the scenarios call. */
const TOOLS: LegacyServerOptions['tools'] = {
  greet: async ({ args }) => `Hello, ${String(args['name'])}!`,
  slow_compute: async ({ args, extra }) => {
    await sleep(Number(args['seconds']) * 1000, undefined, { signal: extra.signal });
    return `computed ${String(args['label'])}`;
  },
  failing_job: async () => {
    await sleep(1_000);
    return { content: text('failed'), isError: true };
  },
  protocol_error_job: async () => {
    await sleep(1_000);
    throw new McpError(ErrorCode.InternalError, 'broken');
  },
  confirm_delete: async (call) => `deleted for ${await askName(call, 'Confirm?')}`,
  multi_input: async (call) => {
    const both = await Promise.all([askName(call, 'First?'), askName(call, 'Second?')]);
    return both.join(' ');
  },
  test_tool_with_task: async (call) => {
    const name = await askName(call, 'Your name?');
    await sleep(1_000);
    return `Hello ${name}`;
  },
};

/** What cannot pass, each with its reason. */
const EXCEPTIONS: Readonly<Record<string, readonly string[]>> = {
  // A tool that demands a task is called for any client: the gateway makes the legacy task itself (rule tasks-1).
  'tasks-required-task-error': ['sep-2663-server-returns-missing-capability-when-required'],
};

test.each([
  'tasks-lifecycle',
  'tasks-capability-negotiation',
  'tasks-wire-fields',
  'tasks-request-state-removal',
  'tasks-mrtr-input',
  'tasks-request-headers',
  'tasks-dispatch-and-envelope',
  'tasks-status-notifications',
  'tasks-required-task-error',
  'tasks-mrtr-composition',
])('%s', async (scenario) => {
  const legacy = await LegacyServer.start({ tools: TOOLS });
  const { gateway } = await gatewayBefore(legacy, {
    tasks: {
      afterMs: 300,
      tools: { confirm_delete: 'interactive', multi_input: 'interactive' },
    },
  });
  const directory = await mkdtemp(join(tmpdir(), 'conformance-'));
  stopAfterTest(() => rm(directory, { recursive: true, force: true }));
  const checks = await runScenario(gateway.url, scenario, directory);
  const failed = checks.filter(({ status }) => status === 'FAILURE');
  expect(checks.length).toBeGreaterThan(0);
  expect(failed.filter(({ id }) => !EXCEPTIONS[scenario]?.includes(id))).toEqual([]);
});
