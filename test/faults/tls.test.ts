/** TLS to the server and to the store, with certificates of an authority that only the operator knows. */
import { describe, expect, test } from 'vitest';
import { callTool } from '../fixtures/clients/modern-client.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  replica,
  replicas,
  text,
} from '../fixtures/gateways/replica-testbed.ts';
import { overTls, privateAuthority } from '../fixtures/network/private-authority.ts';
import { startRedis } from '../fixtures/redis/redis-server.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

describe('over TLS', { tags: ['redis-tls'], timeout: 60_000 }, () => {
  // Rule limits-2.
  test('to the server and to the store a call is parked, relayed and reattached as without TLS', async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const authority = await privateAuthority();
    const files = await authority.issue('IP:127.0.0.1');
    const upstream = await overTls(legacy.url, files);
    const store = await startRedis({
      scheme: 'rediss',
      args: [
        ...['--tls-cert-file', files.certFile, '--tls-key-file', files.keyFile],
        ...['--tls-ca-cert-file', authority.caFile, '--tls-auth-clients', 'no'],
      ],
    });
    stopAfterTest(() => store.stop());
    const redis = { url: store.url.href, tls: { ca: `file:${authority.caFile}` } };
    const env = { NODE_EXTRA_CA_CERTS: authority.caFile };
    const [one, other] = await replicas(legacy, 2, { upstream, env, config: { redis } });
    const [relayed, taken] = [await callTool(one.url, 'greet'), await callTool(one.url, 'greet')];
    const ada = await callTool(other.url, 'greet', answersOf(relayed, 'Ada'));
    await one.kill();
    const eve = await callTool(other.url, 'greet', answersOf(taken, 'Eve'));
    expect([ada, eve].map(text)).toEqual(['Hello Ada', 'Hello Eve']);
    expect([await other.recoveries(), effects]).toEqual([
      ['relay', 'reattach'],
      ['Ada', 'Eve'],
    ]);
  });

  // Rule limits-2: A server with an invalid certificate gets nothing: `upstream_unavailable`, and the log says why.
  test.each([
    ['that no known authority vouches for', 'IP:127.0.0.1', 2, false, /NODE_EXTRA_CA_CERTS/],
    ['that has expired', 'IP:127.0.0.1', -1, true, /CERT_HAS_EXPIRED.*expired/],
    [
      'for another name',
      'DNS:other.example',
      2,
      true,
      /ERR_TLS_CERT_ALTNAME_INVALID.*another name/,
    ],
  ])(
    'a server with a certificate %s is not spoken to, and the log says why',
    async (_, name, days, isKnown, problem) => {
      const legacy = await legacyServer({ tools: greeter().tools });
      const authority = await privateAuthority();
      const upstream = await overTls(legacy.url, await authority.issue(name, days));
      const env = isKnown ? { NODE_EXTRA_CA_CERTS: authority.caFile } : {};
      const gateway = await replica(legacy, { upstream, env });
      const [line] = await gateway.saw('upstream.unavailable');
      expect(line?.['problem']).toMatch(problem);
      expect(reasonOf(await callTool(gateway.url, 'greet'))).toBe('upstream_unavailable');
      expect(legacy.received).toEqual([]);
    },
  );

  test('a server that speaks none on its port is not spoken to, and the log says why', async () => {
    const legacy = await legacyServer({ tools: greeter().tools });
    const upstream = legacy.url.replace('http:', 'https:');
    const gateway = await replica(legacy, { upstream });
    const [line] = await gateway.saw('upstream.unavailable');
    expect(line?.['problem']).toMatch(/does not use TLS/);
  });
});
