/**
 * The libraries that the gateway loads at its start, and nothing of the gateway: fastify listens, undici's Agent passes each request on,
 * and each of the others does a little of its work. What this process takes, any program of these libraries takes.
 */
import { createParser } from 'eventsource-parser';
import fastify from 'fastify';
import { Counter, Registry } from 'prom-client';
import secureJson from 'secure-json-parse';
import { Agent } from 'undici';
import { parse } from 'yaml';
import { z } from 'zod';

const Config = z.strictObject({ listen: z.int(), admin: z.int(), upstream: z.url() });
const [flag, text = ''] = process.argv.slice(2);
if (flag !== '--settings') throw new Error('--settings is missing');
const { listen, admin, upstream } = Config.parse(parse(text));
const agent = new Agent();
const registers = [new Registry()];
const requests = new Counter({ name: 'requests_total', help: 'Requests', registers });

/** @returns the data of the last event */
function lastEvent(stream: string): string {
  let data = '';
  createParser({ onEvent: (event) => (data = event.data) }).feed(stream);
  return data;
}

const front = fastify({ logger: false });
front.removeAllContentTypeParsers();
front.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => {
  done(null, body);
});
front.post('/mcp', async ({ body }, reply) => {
  requests.inc();
  const message: unknown = secureJson.parse(String(body));
  const answer = await agent.request({
    origin: upstream,
    path: '/mcp',
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify(message),
  });
  return reply.type('application/json').send(lastEvent(await answer.body.text()));
});

const operator = fastify({ logger: false });
operator.get('/readyz', async () => {
  const { body } = await agent.request({ origin: upstream, path: '/', method: 'HEAD' });
  await body.dump();
  return { status: 'ready' };
});
operator.get('/metrics', () => registers[0]?.metrics());

// A clean end writes the compile cache.
process.once('SIGTERM', () => process.exit(0));
await front.listen({ host: '127.0.0.1', port: listen });
await operator.listen({ host: '127.0.0.1', port: admin });
