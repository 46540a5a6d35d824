/** The peer of the bridge: `@fastify/http-proxy` as it comes, which knows nothing of what it passes on. */
import httpProxy from '@fastify/http-proxy';
import fastify from 'fastify';
import { announcePort } from '../processes/announce.ts';

const [upstream] = process.argv.slice(2);
if (upstream === undefined) throw new Error('no upstream was given');
const app = fastify({ logger: false });
await app.register(httpProxy, { upstream, disableRequestLogging: true });
await app.listen({ host: '127.0.0.1', port: 0 });
announcePort(app.server);
