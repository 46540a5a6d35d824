/** What the log says of requests that the gateway refuses itself, over real sockets. */
import { describe, expect, test } from 'vitest';
import { modernBody, modernHeaders } from '../../fixtures/clients/modern-client.ts';
import { ground } from '../../fixtures/gateways/survival-testbed.ts';

describe('a request that is refused', () => {
  const body = JSON.stringify(modernBody('tools/list', {}));
  const headers = modernHeaders('tools/list', {});

  // Rule rejections-1: Each refused request is logged at `debug` with its status and reason, without its query.
  test.for([
    ['for its Accept', '', { ...headers, accept: 'text/html' }, body, 406, 'Accept must list'],
    ['for its version', '', { ...headers, 'mcp-protocol-version': '2027-01-01' }, body, 400, ''],
    ['for its body', '?token=secret', headers, '{', 400, 'not JSON'],
    ['for the size of its body', '', headers, ' '.repeat(3_000), 413, 'limits.maxBody'],
    ['for its path', '/nothing/here', headers, body, 404, 'No route'],
  ] as const)('%s is logged with the reason', async ([, suffix, sent, text, status, problem]) => {
    const { gateway } = await ground({
      limits: { maxBodyBytes: 2_000 },
      edge: { legacyClients: 'reject' },
    });
    const to = new URL(suffix.startsWith('/') ? suffix : `/mcp${suffix}`, gateway.url);
    const response = await fetch(to, { method: 'POST', headers: sent, body: text });
    expect(response.status).toBe(status);
    await response.text();
    await gateway.log.saw('edge.invalid_request');
    expect(gateway.log.named('edge.invalid_request')).toEqual([
      {
        method: 'POST',
        path: to.pathname,
        status,
        problem: expect.stringContaining(problem),
        client: '127.0.0.1',
      },
    ]);
  });

  test('is not logged so if it is served', async () => {
    const { gateway } = await ground();
    const response = await fetch(gateway.url, {
      method: 'POST',
      headers: modernHeaders('server/discover', {}),
      body: JSON.stringify(modernBody('server/discover', {})),
    });
    expect(response.status).toBe(200);
    await response.text();
    await gateway.log.saw('edge.request');
    expect(gateway.log.named('edge.invalid_request')).toEqual([]);
  });
});
