/** Who may call from where, hostile pointers and answers, and what answers give away. */
import { connect } from 'node:net';
import { createHmac, randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { startTestGateway } from '../../../fixtures/gateways/gateway.ts';
import { accept, callTool } from '../../../fixtures/clients/modern-client.ts';
import {
  rawRequest,
  sendRaw,
  valuesOf,
  type RawAnswer,
} from '../../../fixtures/clients/raw-http.ts';
import {
  eventStream,
  json,
  legacyServer,
  type Answer,
} from '../../../fixtures/servers/scripted-server.ts';
import {
  callBody,
  callsOf,
  expectUnharmed,
  ground,
  rawCall,
} from '../../../fixtures/gateways/survival-testbed.ts';

const errorOf = ({ body }: RawAnswer) => JSON.parse(body).error;
const FROZEN = {
  code: -32602,
  message:
    'Invalid or expired requestState. The server may have acted on this call: check whether it took effect before you call again',
  data: { reason: 'invalid_request_state', mayHaveActed: 'unknown' },
};

describe('behind a loopback address', () => {
  const refusedHosts = [
    'evil.example',
    'evil.example:80',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    'localhost@evil.example',
    'evil.example#localhost',
    '10.0.0.1',
    '0.0.0.0',
    '[::2]',
    '[::ffff:10.0.0.1]',
    'localhost:80:80',
    'localhost:port',
    'localhost, evil.example',
    'evil.example\tlocalhost',
  ];
  // Rule callers-2 (streamable-http, "Security & Endpoint"): Where the gateway listens on loopback, the
  // `Host` must be a name of this machine, the host of an allowed origin, or in `edge.allowedHosts`;
  // otherwise 403. This holds for the admin listener as well.
  test.each(refusedHosts)('Host %s is another name, and refused', async (host) => {
    const field = await ground();
    const answer = await sendRaw(field.url, rawCall({ changes: { host } }));
    expect(answer.status).toBe(403);
    expect(errorOf(answer)).toMatchObject({ code: -32600 });
    for (const [method, path] of [
      ['GET', '/mcp'],
      ['DELETE', '/mcp'],
      ['GET', '/other'],
    ] as const) {
      const other = await sendRaw(field.url, rawRequest(method, path, [['host', host]]));
      expect(other.status).toBe(403);
    }
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  // Rule callers-2.
  test.each([
    'localhost',
    'LOCALHOST:1',
    '127.0.0.1:8080',
    '127.8.8.8',
    '[::1]',
    '[::1]:80',
    'app.localhost',
  ])('Host %s is ours', async (host) => {
    const field = await ground();
    expect((await sendRaw(field.url, rawCall({ changes: { host } }))).status).toBe(200);
    await expectUnharmed(field);
  });

  // Rule callers-1 (streamable-http, "Security & Endpoint" 1): A request with an `Origin` that is not listed
  // in `edge.allowedOrigins` gets 403, on every path. Where the gateway listens on loopback, `http` and
  // `https` origins of this machine may call as well. A request without `Origin` comes from no web page and
  // passes.
  test.each([
    'http://evil.example',
    'https://localhost.evil.example',
    'http://127.0.0.1.evil.example',
    'http://localhost@evil.example',
    'null',
    'file://',
    'localhost',
    'http://',
    'ws://localhost',
    'chrome-extension://localhost',
    'http://localhost http://evil.example',
    'https://good.example.evil.example',
    'https://GOOD.example',
    'http://good.example',
    'https://good.example:444',
  ])('a page of %s may not call', async (origin) => {
    const field = await ground({ edge: { allowedOrigins: ['https://good.example'] } });
    const answer = await sendRaw(field.url, rawCall({ changes: { origin } }));
    expect(answer.status).toBe(403);
    expect(valuesOf(answer, 'access-control-allow-origin')).toEqual([]);
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  // Rule callers-1.
  test.each([
    'http://localhost:5173',
    'https://127.0.0.1',
    'http://[::1]:1',
    'https://good.example',
  ])('a page of %s may', async (origin) => {
    const field = await ground({ edge: { allowedOrigins: ['https://good.example'] } });
    const answer = await sendRaw(field.url, rawCall({ changes: { origin } }));
    expect(answer.status).toBe(200);
    expect(valuesOf(answer, 'access-control-allow-origin')).toEqual([origin]);
    await expectUnharmed(field);
  });

  // Rule callers-2.
  test('the admin listener checks Host as well', async () => {
    const field = await ground({ admin: true });
    const url = field.gateway.adminUrl ?? '';
    const get = (path: string, host: string) =>
      sendRaw(url, rawRequest('GET', path, [['host', host]]));
    for (const path of ['/metrics', '/readyz', '/healthz']) {
      expect((await get(path, 'evil.example')).status).toBe(403);
      expect((await get(path, 'localhost')).status).toBe(200);
    }
    await expectUnharmed(field);
  });
});

/** A tool that asks once and then repeats the answer. */
function asking(): Answer {
  return ({ body }, response) => {
    eventStream(response).send({
      jsonrpc: '2.0',
      id: `q-${body.id}`,
      method: 'elicitation/create',
      params: { message: 'm', requestedSchema: { type: 'object', properties: {} } },
    });
  };
}

describe('a pointer', () => {
  const parked = async (overrides = {}) => {
    const posted: unknown[] = [];
    let finish = () => {};
    const upstream = await legacyServer(
      (received, response, request) => {
        if (received.body.params?.name === 'echo') {
          const result = { content: [{ type: 'text', text: 'echo' }] };
          json(response, 200, { jsonrpc: '2.0', id: received.body.id, result });
          return;
        }
        finish = () => {
          const result = { content: [{ type: 'text', text: 'answered' }] };
          const message = { jsonrpc: '2.0', id: received.body.id, result };
          response.end(`data: ${JSON.stringify(message)}\n\n`);
        };
        return asking()(received, response, request);
      },
      {
        onResponse: ({ body }, response) => {
          posted.push(body);
          response.writeHead(202).end();
          finish();
        },
      },
    );
    const gateway = await startTestGateway(upstream.url, overrides);
    const { response } = await callTool(gateway.url, 'ask');
    const { requestState, inputRequests } = response.result;
    const [key = ''] = Object.keys(inputRequests);
    const stop = async () => {
      await gateway.close();
      await upstream.stop();
    };
    return { gateway, upstream, posted, requestState: String(requestState), key, stop };
  };

  test('in another spelling, inflated or from nowhere is refused alike, and the call goes on', async () => {
    const field = await parked();
    const { requestState: good, key } = field;
    const parts = good.split('.');
    const header = JSON.parse(Buffer.from(parts[0] ?? '', 'base64url').toString());
    const withHeader = (changes: object) =>
      [
        Buffer.from(JSON.stringify({ ...header, ...changes })).toString('base64url'),
        ...parts.slice(1),
      ].join('.');
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const lastCharacters = [...alphabet].map((last) => good.slice(0, -1) + last);
    const hostile = [
      ...lastCharacters.filter((other) => other !== good),
      `${good}\n`,
      ` ${good}`,
      `${good}=`,
      `${good}.`,
      good.replaceAll('-', '+').replaceAll('_', '/').concat('=='),
      withHeader({ zip: 'DEF' }),
      withHeader({ alg: 'none' }),
      withHeader({ alg: 'PBES2-HS256+A128KW', p2c: 1_000_000_000, p2s: 'AAAA' }),
      withHeader({ kid: '../../etc/passwd' }),
      withHeader({ kid: '__proto__' }),
      `${Buffer.from('{"alg":"HS256"}').toString('base64url')}.e30.${createHmac('sha256', 'x').update('').digest('base64url')}`,
      '',
      '....',
      'a.b.c.d.e',
      randomBytes(3_000).toString('base64url'),
      'A'.repeat(3_000_000),
      '.'.repeat(1_000_000),
      '\u0000',
      '\ud800',
    ];
    const answers = { inputResponses: { [key]: accept() } };
    for (const requestState of hostile) {
      const { status, response } = await callTool(field.gateway.url, 'ask', {
        ...answers,
        requestState,
      });
      expect({ status, error: response.error }).toEqual({ status: 200, error: FROZEN });
    }
    expect(field.posted).toEqual([]);
    const { response } = await callTool(field.gateway.url, 'ask', {
      ...answers,
      requestState: good,
    });
    expect(response.result.content[0].text).toBe('answered');
    await field.stop();
  });

  test('with answers under odd or countless keys goes on with those that were asked for', async () => {
    const field = await parked();
    const { requestState, key } = field;
    const names = [
      'constructor',
      'toString',
      'hasOwnProperty',
      'valueOf',
      'then',
      '',
      '../..',
      '\u0000',
    ];
    const countless = Array.from({ length: 10_000 }, (_, index) => `key-${index}`);
    const odd = Object.fromEntries([...names, ...countless].map((name) => [name, accept()]));
    const inputResponses = { ...odd, [key]: accept() };
    const { response } = await callTool(field.gateway.url, 'ask', { inputResponses, requestState });
    expect(response.result.content[0].text).toBe('answered');
    expect(field.posted).toHaveLength(1);
    await field.stop();
  });
});

describe('what is written into headers', () => {
  const LINES = 'echo\r\nx-injected: 1';
  const encoded = (text: string) => `=?base64?${Buffer.from(text).toString('base64')}?=`;

  // Rule envelope-8 (streamable-http, "Value Encoding"): Whatever is in a name or a value, it adds no
  // header to a message upstream or to a response.
  test('a tool whose name has line breaks adds no header anywhere', async () => {
    const field = await ground();
    const body = callBody(LINES);
    const answer = await sendRaw(
      field.url,
      rawCall({ body, changes: { 'mcp-name': encoded(LINES) } }),
    );
    expect(answer.status).toBe(200);
    expect(valuesOf(answer, 'x-injected')).toEqual([]);
    for (const { headers } of field.upstream.received)
      expect(headers).not.toHaveProperty('x-injected');
    await expectUnharmed(field);
  });

  // Rule validation-17.
  test.each([
    ['that is no Base64', '=?base64?***?='],
    [
      'in another spelling',
      `=?base64?${Buffer.from('echo').toString('base64').replace('=', '')}?=`,
    ],
    ['of another tool', encoded('other')],
    ['that overlaps itself', '=?base64?='],
  ])('a name %s is refused', async (_title, name) => {
    const field = await ground();
    const answer = await sendRaw(field.url, rawCall({ changes: { 'mcp-name': name } }));
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toMatchObject({ code: -32020 });
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  // Rules eras-10, envelope-5, wire-8.
  test('what the client claims about itself and proxies does not go upstream', async () => {
    const field = await ground();
    const more = [
      ['cookie', 'a=1'],
      ['x-forwarded-for', '10.0.0.1'],
      ['forwarded', 'for=10.0.0.1'],
      ['mcp-session-id', 'stolen'],
      ['last-event-id', 'stolen'],
      ['proxy-authorization', 'Basic eA=='],
      ['te', 'trailers'],
    ] as const;
    expect((await sendRaw(field.url, rawCall({ more }))).status).toBe(200);
    const { headers } = await field.upstream.saw(({ body }) => body?.method === 'tools/call');
    for (const [name] of more.filter(([name]) => name !== 'mcp-session-id')) {
      expect(headers).not.toHaveProperty(name);
    }
    expect(headers['mcp-session-id']).toBe('session-1');
    await expectUnharmed(field);
  });

  // Rule http-13: No response of the gateway itself names its software (`Server`, `X-Powered-By`, `Via`) or
  // sets a cookie.
  test.each(['server', 'x-powered-by', 'via', 'set-cookie', 'mcp-session-id'])(
    'no answer has the header %s',
    async (name) => {
      const field = await ground();
      expect(valuesOf(await sendRaw(field.url, rawCall()), name)).toEqual([]);
      const broken = await sendRaw(field.url, 'GARBAGE\r\n\r\n');
      expect(valuesOf(broken, name)).toEqual([]);
      await expectUnharmed(field);
    },
  );
});

// Rule validation-23: Calls beyond `limits.maxRunningCalls` are refused in-band: 200, -32603 with
// `data.reason: "overloaded"`, since clients take 429 and 5xx as a sign to change eras.
// Rule failures-7.
test('calls beyond the limit are refused at once, and taken again afterwards', async () => {
  const answer = Promise.withResolvers<() => void>();
  const field = await ground({ limits: { maxRunningCalls: 1 } }, ({ body }, response) => {
    answer.resolve(() =>
      json(response, 200, { jsonrpc: '2.0', id: body.id, result: { content: [] } }),
    );
  });
  const held = callTool(field.url, 'held');
  const finish = await answer.promise;
  const refused = await callTool(field.url, 'echo');
  expect(refused.response.error).toMatchObject({ code: -32603, data: { reason: 'overloaded' } });
  expect(callsOf(field)).toBe(1);
  finish();
  expect((await held).response.result.content).toEqual([]);
  await expectUnharmed(field);
});

test('a connection that is opened for nothing costs nothing', async () => {
  const field = await ground();
  const { hostname, port } = new URL(field.url);
  for (let count = 0; count < 200; count += 1) {
    await new Promise<void>((resolve) => {
      const socket = connect({ host: hostname, port: Number(port) }, () =>
        socket.resetAndDestroy(),
      );
      socket.on('error', () => {}).once('close', () => resolve());
    });
  }
  await expectUnharmed(field);
});
