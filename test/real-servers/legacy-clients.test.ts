/**
 * Legacy clients of official SDKs in front of servers over stdio. Each plays one session twice, with the server itself over stdio and
 * through the gateway, and has to see the same.
 */
import { describe, expect, test } from 'vitest';
import type { StdioServer } from '../fixtures/gateways/gateway.ts';
import { testGateway } from '../fixtures/gateways/test-gateway.ts';
import { EVERYTHING_STDIO } from '../fixtures/processes.ts';
import { CLIENTS, playWith, type ClientName } from '../fixtures/real-servers/clients/run-client.ts';
import type { Script, Step, Transcript } from '../fixtures/real-servers/clients/script.ts';

const TAGS: Readonly<
  Record<ClientName, readonly ['python'] | readonly ['python-2'] | readonly []>
> = {
  'TypeScript SDK 1': [],
  'TypeScript SDK 2': [],
  'Python SDK 1': ['python'],
  'Python SDK 2': ['python-2'],
};
const NAMES = Object.keys(CLIENTS) as ClientName[];

const call = (name: string, args = {}): Step => ({ do: 'call', params: { name, arguments: args } });
const request = (method: string, params = {}): Step => ({ do: 'request', method, params });
const uri = 'demo://resource/dynamic/text/1';
const LOG = 'notifications/message';

/** Everything that a legacy session has. */
const EVERYTHING: Script = {
  roots: [{ uri: 'file:///home/ada', name: 'home' }],
  form: { action: 'accept', content: { name: 'Ada Lovelace', check: true, integer: 7 } },
  url: { action: 'accept' },
  sampling: {
    ...{ role: 'assistant', model: 'scripted', stopReason: 'endTurn' },
    content: { type: 'text', text: 'forty-two' },
  },
  steps: [
    // The server asks for the roots 350 ms after the session has begun, for no request, and logs that it has them.
    { do: 'await', method: LOG, count: 1 },
    request('tools/list'),
    call('get-roots-list'),
    { do: 'roots', roots: [{ uri: 'file:///home/eve', name: 'other' }] },
    { do: 'await', method: LOG, count: 2 },
    call('get-roots-list'),
    call('echo', { message: 'grüße, 世界 🌍\u2028' }),
    call('no-such-tool'),
    call('get-sum', { a: 'x' }),
    call('get-tiny-image'),
    call('get-structured-content', { location: 'Chicago' }),
    call('trigger-elicitation-request'),
    call('trigger-url-elicitation', { url: 'https://a.example/x', elicitationId: 'e1' }),
    call('trigger-url-elicitation', { url: 'https://a.example/x', errorPath: true }),
    call('trigger-sampling-request', { prompt: 'what?', maxTokens: 5 }),
    call('trigger-long-running-operation', { duration: 0.4, steps: 4 }),
    {
      do: 'together',
      calls: [
        { name: 'trigger-long-running-operation', arguments: { duration: 0.3, steps: 3 } },
        { name: 'trigger-elicitation-request', arguments: {} },
        { name: 'trigger-sampling-request', arguments: { prompt: 'at once' } },
        { name: 'echo', arguments: { message: 'beside them' } },
      ],
    },
    {
      do: 'cancel',
      params: { name: 'trigger-long-running-operation', arguments: { duration: 0.6, steps: 3 } },
    },
    request('prompts/list'),
    request('prompts/get', { name: 'args-prompt', arguments: { city: 'Paris', state: 'Texas' } }),
    request('prompts/get', { name: 'no-such-prompt', arguments: {} }),
    request('completion/complete', {
      ref: { type: 'ref/prompt', name: 'completable-prompt' },
      argument: { name: 'department', value: 'S' },
    }),
    request('resources/list'),
    request('resources/templates/list'),
    request('resources/read', { uri }),
    request('resources/read', { uri: 'demo://nothing' }),
    // What is logged is below the level that the client wants.
    request('logging/setLevel', { level: 'error' }),
    request('resources/subscribe', { uri }),
    request('logging/setLevel', { level: 'debug' }),
    call('toggle-subscriber-updates'),
    { do: 'await', method: 'notifications/resources/updated', count: 1 },
    call('toggle-subscriber-updates'),
    request('resources/unsubscribe', { uri }),
    { do: 'await', method: LOG, count: 3 },
    call('gzip-file-as-resource', {
      name: 'a.gz',
      data: 'data:text/plain,packed',
      outputType: 'resourceLink',
    }),
    { do: 'await', method: 'notifications/resources/list_changed', count: 1 },
    request('resources/list'),
    request('ping'),
    // The cancelled call is over at the server by now.
    { do: 'wait', ms: 500 },
  ],
};

const UUID = /[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}/g;
const TIME = /\d{1,2}:\d{2}:\d{2}(?: [AP]M)?/g;

/** An SDK complains of what comes late: progress that it has read together with the response, and all for a call that it cancelled. */
const LATE = /^Received a (?:progress notification|response) for an unknown/;

/**
 * What has to be equal. Ids and times differ, and what comes on different streams has no order. Over stdio the TypeScript SDK loses
 * the last progress if it has read the response with it.
 */
function comparable(transcript: Transcript): unknown {
  const { opened, steps, asked, notifications, problems }: Transcript = JSON.parse(
    JSON.stringify(transcript, (_key, value) =>
      Array.isArray(value) ? value.filter((each) => !isLast(each)) : value,
    )
      .replaceAll(UUID, '<uuid>')
      .replaceAll(TIME, '<time>'),
  );
  const sorted = (all: readonly unknown[]) => all.map((each) => JSON.stringify(each)).sort();
  return {
    ...{ opened, steps, asked: sorted(asked), notifications: sorted(notifications) },
    problems: problems.filter((each) => !LATE.test(each)),
  };
}

/** Whether something is the last progress of a call. */
function isLast(value: unknown): boolean {
  const { progress, total } = (value ?? {}) as { progress?: unknown; total?: unknown };
  return typeof progress === 'number' && progress === total;
}

/** Plays a script both ways, and checks that the client sees the same, and that nothing is lost on the way. */
async function plays(client: ClientName, server: StdioServer, script: Script): Promise<void> {
  const { url, log } = await testGateway(server);
  const [direct, through] = await Promise.all([
    playWith(CLIENTS[client], server, script),
    playWith(CLIENTS[client], { url }, script),
  ]);
  expect(comparable(through)).toEqual(comparable(direct));
  await log.saw('legacy_session.ended');
  expect(log.named('legacy_session.lost')).toEqual([]);
}

describe.each(NAMES)('a client of the %s', (name) => {
  test('has the same session with server-everything', { tags: [...TAGS[name]] }, () =>
    plays(name, EVERYTHING_STDIO, EVERYTHING),
  );
});
