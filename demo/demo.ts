/** The demo: a legacy server, the gateway and a modern client on this machine, with the wire made visible. */
import { parseArgs } from 'node:util';
import { serve } from './serve.ts';
import { show } from './show.ts';
import { setStage } from './stage.ts';
import { paint } from './paint.ts';
import { Transcript } from './transcript.ts';
import { packageVersion } from './package-version.ts';

const USAGE = `Usage:
  npm run demo                          two calls that ask in the middle, and what is said on the wire
  npm run demo -- --serve [--port N]    a gateway that stays (port 8080), and curl lines to try it with
`;

const write = (text: string) => void process.stdout.write(text);

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      serve: { type: 'boolean' },
      port: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help === true) {
    write(USAGE);
    return 0;
  }
  if (values.serve === true) return serve(values.port ?? '8080', write);
  if (values.port !== undefined) throw new Error('--port needs --serve, which keeps the gateway');
  return demonstrate();
}

async function demonstrate(): Promise<number> {
  // Ending this way, and not by the signal itself, takes the two processes along.
  process.once('SIGINT', () => process.exit(130)).once('SIGTERM', () => process.exit(143));
  write('Starting the legacy server and the gateway.\n');
  const stage = await setStage({ listen: '127.0.0.1:0', admin: 'off' });
  try {
    const server = `server-everything ${packageVersion('@modelcontextprotocol/server-everything')}`;
    const client = `client ${packageVersion('@modelcontextprotocol/client')}`;
    write(`
  server   @modelcontextprotocol/${server}, legacy, keeps sessions and asks on open streams
  gateway  mrtr-gateway, ${stage.gatewayUrl} -> ${stage.serverUrl}
  client   @modelcontextprotocol/${client}, modern (2026-07-28), has no session and no open stream
`);
    const asExpected = await show(stage.gatewayUrl, new Transcript(write));
    const verdict = asExpected
      ? paint('green', 'Both calls were asked, answered and completed.')
      : paint('red', 'The calls did not come back as they should.');
    write(`\n${verdict}\n`);
    return asExpected ? 0 : 1;
  } finally {
    await stage.stop();
  }
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`demo: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
