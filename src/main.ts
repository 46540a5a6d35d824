/** The entry of the program. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { warnOfFewFiles } from './cli/open-files.ts';
import { run } from './cli/run.ts';
import type { Start } from './cli/serve.ts';

/** Loaded only to serve, so that the other commands answer at once. */
const start: Start = async (config, options) => {
  warnOfFewFiles(config, options.log);
  const { startGateway } = await import('./app/gateway.ts');
  return startGateway(config, options);
};

const code = await run(process.argv.slice(2), process, start);
// A turn for a pretty log to pass its last line on, and time for what is on its way to a slow reader.
await nextTurn();
await new Promise<void>((done) => process.stdout.write('', () => done()));
process.exit(code);
