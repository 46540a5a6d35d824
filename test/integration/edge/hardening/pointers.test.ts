/** Retries whose pointer or answers were tampered with. */
import { createHmac, randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { startTestGateway } from '../../../fixtures/gateways/gateway.ts';
import { accept, callTool } from '../../../fixtures/clients/modern-client.ts';
import {
  eventStream,
  json,
  legacyServer,
  type Answer,
} from '../../../fixtures/servers/scripted-server.ts';

const FROZEN = {
  code: -32602,
  message:
    'Invalid or expired requestState. The server may have acted on this call: check whether it took effect before you call again',
  data: {
    reason: 'invalid_request_state',
    mayHaveActed: 'unknown',
    help: 'mrtr-gateway/docs/operate/errors.md#invalid_request_state',
  },
};

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
