/** The legacy server and the gateway in front of it, as two processes of this machine. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { JsonObject } from '../src/protocol/json.ts';
import { logLine, startProgram } from './child-process.ts';

export interface Stage {
  readonly serverUrl: string;
  readonly gatewayUrl: string;
  readonly adminUrl: string | null;
  /** Resolves when either process has ended. */
  readonly ended: Promise<void>;
  stop(): Promise<void>;
}

export interface StageOptions {
  /** Such as `127.0.0.1:8080`; port `0` for any that is free. */
  readonly listen: string;
  /** The same for the admin listener, or `off`. */
  readonly admin: string;
  /** Called with each line of the gateway's log. */
  readonly onLog?: (line: JsonObject) => void;
}

/** @throws Error with what the failing process wrote */
export async function setStage({ listen, admin, onLog }: StageOptions): Promise<Stage> {
  const server = await startServer();
  try {
    const gateway = await startProgram(
      {
        name: 'the gateway',
        args: [
          pathOf('bin/mrtr-gateway.js'),
          ...['--upstream', server.ready, '--listen', listen, '--admin', admin],
          ...['--log-level', 'info', '--log-format', 'json'],
        ],
        env: process.env,
        onLine: (line) => onLog?.(logLine(line)),
      },
      (line) => listening(logLine(line)),
    );
    return {
      serverUrl: server.ready,
      ...gateway.ready,
      ended: Promise.race([server.ended, gateway.ended]),
      // The gateway first: it takes leave of its sessions with the server.
      stop: async () => {
        await gateway.stop();
        await server.stop();
      },
    };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

async function startServer() {
  const port = String(await freePort());
  // This server listens on all interfaces and has a tool that tells its environment: give it none.
  const { PATH, SystemRoot } = process.env;
  return startProgram(
    {
      name: 'the legacy server',
      args: [
        pathOf('node_modules/@modelcontextprotocol/server-everything/dist/index.js'),
        'streamableHttp',
      ],
      env: { PATH, SystemRoot, PORT: port },
    },
    (line) => (line.includes('listening on port') ? `http://127.0.0.1:${port}/mcp` : null),
  );
}

function listening({ event, url, admin }: JsonObject) {
  if (event !== 'gateway.listening' || typeof url !== 'string') return null;
  return { gatewayUrl: url, adminUrl: typeof admin === 'string' ? admin : null };
}

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const probe = createServer();
  probe.listen(0);
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port was given');
  return address.port;
}

function pathOf(inRepository: string): string {
  return fileURLToPath(new URL(`../${inRepository}`, import.meta.url));
}
