/** An operator sees that a modern client has a wrong URL: the client itself only says that the server is a legacy one. */
import { expect, test } from 'vitest';
import { modernBody, modernHeaders } from '../../fixtures/clients/modern-client.ts';
import { wrongPathLog } from '../../../src/front/wrong-paths.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { RecordedLog } from '../../fixtures/gateways/gateway.ts';
import { ground } from '../../fixtures/gateways/survival-testbed.ts';

async function post(to: URL, headers: Record<string, string>): Promise<number> {
  const body = JSON.stringify(modernBody('tools/list', {}));
  const response = await fetch(to, { method: 'POST', headers, body });
  await response.text();
  return response.status;
}

const HEADERS = modernHeaders('tools/list', {});

// Rule rejections-2: A request of 2026-07-28 to an unknown path, and a refused legacy client, is a warning, at most
// once a minute.
test.for([
  ['rejected', 'reject'],
  ['passed through', 'pass-through'],
] as const)(
  'a modern request to the path of no route is a warning where legacy clients are %s',
  async ([, clients]) => {
    const { gateway } = await ground({ edge: { legacyClients: clients } });
    const to = new URL('/mcp/?token=secret', gateway.url);
    for (let sent = 0; sent < 3; sent += 1) await post(to, HEADERS);
    expect(gateway.log.named('edge.wrong_path')).toEqual([
      { path: '/mcp/', paths: '/mcp', requests: 1 },
    ]);
  },
);

test('a request that is for a route, or that is not of 2026-07-28, is no wrong path', async () => {
  const { gateway } = await ground();
  expect(await post(new URL('/mcp?x=1', gateway.url), HEADERS)).toBe(200);
  const { 'mcp-protocol-version': _version, ...legacy } = HEADERS;
  await post(new URL('/other', gateway.url), legacy);
  await post(new URL('/other', gateway.url), { ...legacy, 'mcp-protocol-version': '2025-11-25' });
  expect(gateway.log.named('edge.wrong_path')).toEqual([]);
});

test('wrong paths within a minute are counted in the next warning, which names the latest', () => {
  const clock = new ManualClock();
  const log = new RecordedLog();
  const strayed = wrongPathLog(['/one', '/two'], { clock, log });
  for (const path of ['/a', '/b', '/c']) strayed(path);
  clock.advance(60_000);
  strayed(`/${'d'.repeat(300)}`);
  expect(log.named('edge.wrong_path')).toEqual([
    { path: '/a', paths: '/one, /two', requests: 1 },
    { path: `/${'d'.repeat(199)}`, paths: '/one, /two', requests: 3 },
  ]);
});
