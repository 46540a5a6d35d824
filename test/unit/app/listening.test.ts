/** What the log says of the routes when clients can connect. */
import { expect, test } from 'vitest';
import { logListening } from '../../../src/app/listening-log.ts';
import { parseConfig } from '../../../src/config/load/load.ts';
import { RecordedLog } from '../../fixtures/gateways/gateway.ts';

const ORIGIN = 'http://127.0.0.1:8080';

function logged(paths: readonly string[]): RecordedLog {
  const log = new RecordedLog();
  const routes = paths.map((path) => ({
    path,
    upstream: { url: `http://servers.example${path}?key=hunter2` },
  }));
  const sources = { env: {}, readSecret: () => '' };
  const { config } = parseConfig(JSON.stringify({ routes }), 'gateway.json', sources);
  expect(logListening(config, ORIGIN, null, log)).toBe(`${ORIGIN}${paths[0]}`);
  return log;
}

test('one route is in the line that says so', () => {
  const log = logged(['/mcp']);
  const url = `${ORIGIN}/mcp`;
  expect(log.named('gateway.listening')).toEqual([
    { url, admin: null, upstreams: 'http://servers.example/mcp' },
  ]);
  expect(log.named('route.listening')).toEqual([]);
});

test('each of several routes has a line of its own, with its URL and its server', () => {
  const log = logged(['/billing/mcp', '/search/mcp', '/mcp']);
  expect(log.named('gateway.listening')).toHaveLength(1);
  expect(log.named('route.listening')).toEqual(
    [
      ['billing-mcp', '/billing/mcp'],
      ['search-mcp', '/search/mcp'],
      ['mcp', '/mcp'],
    ].map(([route, path]) => ({
      route,
      url: `${ORIGIN}${path}`,
      upstream: `http://servers.example${path}`,
    })),
  );
});
