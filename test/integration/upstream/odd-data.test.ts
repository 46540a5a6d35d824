/** Results whose data could trouble a program that judges it, and which is only handed on. */
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { accept, callTool, type Exchanged } from '../../fixtures/clients/modern-client.ts';
import { type startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { ODD, READ_TWICE } from '../../fixtures/servers/odd-data.ts';
import { oddServer, oddSseServer } from '../../fixtures/servers/odd-data-over-http.ts';

const PROGRAM = fileURLToPath(new URL('../../fixtures/servers/odd-data.ts', import.meta.url));

async function gatewayTo(...[target, options]: Parameters<typeof startTestGateway>) {
  const gateway = await testGateway(target, options);
  return gateway.url;
}

const overHttp = async () => gatewayTo(await oddServer());
const overHttpSse = async () => gatewayTo(await oddSseServer(), { transport: 'http-sse' });
const overStdio = () => gatewayTo({ command: process.execPath, args: [PROGRAM] });

function expectOdd({ response, text }: Exchanged): void {
  expect(text).toContain(`"structuredContent":${ODD}`);
  expect(Object.keys(response.result._meta)).toContain('__proto__');
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
}

describe.each([
  ['HTTP', overHttp],
  ['HTTP+SSE', overHttpSse],
  ['stdio', overStdio],
])(
  'over %s, data that could reach a prototype, is 600 levels deep, and has long numbers,',
  (_transport, start) => {
    // Rule limits-3.
    test('reaches the client in the result of a plain call', async () => {
      expectOdd(await callTool(await start(), 'odd'));
    });

    // Rule limits-3.
    test('reaches the client in the result of a call that asked', async () => {
      const url = await start();
      const { requestState, inputRequests } = (await callTool(url, 'ask')).response.result;
      const [key = ''] = Object.keys(inputRequests);
      const inputResponses = { [key]: accept({ name: 'Ada' }) };
      expectOdd(await callTool(url, 'ask', { requestState, inputResponses }));
    });

    // Rule limits-3.
    test('loses all but the last of members with the same name in one object', async () => {
      const { text } = await callTool(await start(), 'twice');
      expect(text).toContain(`"result":{${READ_TWICE},`);
    });

    // Rule limits-3.
    test('is told from data that is too deep, whose call fails with the name of the limit', async () => {
      const { response } = await callTool(await start(), 'deeper');
      expect(response.error?.message ?? response.result?.content?.[0]?.text).toContain(
        'at most 1000 levels of objects and arrays',
      );
    });
  },
);
