/** Callers who come while it is being found out what the server speaks. */
import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { json, ScriptedServer, type Received } from '../fixtures/scripted-server.ts';
import { reply, upstreamOf } from '../fixtures/upstream-ground.ts';

const as = (name: string) => ({ authorization: `Bearer ${name}` });

/** A server that lets `good` in, and keeps the first of all requests waiting until it is told. */
async function guarded() {
  const held = Promise.withResolvers<() => void>();
  let first = true;
  const answer = ({ headers, body }: Received, response: ServerResponse) => {
    const { authorization } = headers;
    if (authorization === 'Bearer good') {
      json(response, 200, reply(body.id, { supportedVersions: ['2026-07-28'] }));
    } else {
      json(response, 401, {}, { 'www-authenticate': `Bearer realm="for ${authorization}"` });
    }
  };
  const server = await ScriptedServer.start((received, response) => {
    if (!first) return answer(received, response);
    first = false;
    held.resolve(() => answer(received, response));
  });
  return { server, upstream: upstreamOf(server), held: held.promise };
}

test('a caller is not refused for the credentials of another one', async () => {
  const { upstream, held } = await guarded();
  const bad = expect(upstream.detect(as('bad'))).rejects.toMatchObject({ code: 'unauthorized' });
  const good = upstream.detect(as('good'));
  (await held)();
  expect(await good).toBe('modern');
  await bad;
});

test('each caller is told what the server wants of that caller', async () => {
  const { upstream, held } = await guarded();
  const told = ['one', 'other'].map((name) =>
    upstream.detect(as(name)).catch((error: unknown) => error),
  );
  (await held)();
  expect(await Promise.all(told)).toMatchObject([
    { details: { wwwAuthenticate: 'Bearer realm="for Bearer one"' } },
    { details: { wwwAuthenticate: 'Bearer realm="for Bearer other"' } },
  ]);
});

test('it is found out once for all who come meanwhile', async () => {
  const { server, upstream, held } = await guarded();
  const kinds = [as('good'), as('other'), as('good')].map((headers) => upstream.detect(headers));
  (await held)();
  expect(await Promise.all(kinds)).toEqual(['modern', 'modern', 'modern']);
  expect(server.received).toHaveLength(1);
});
