// What `npm run demo` starts: installs what is missing, then runs the demo with the Node.js that the
// installation brought along. Plain JavaScript, because any Node.js from 18 on must be able to run it.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { explain, isRecentEnough } from '../bin/node-version.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const at = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

// npm writes the first file last: an installation that was interrupted does not have it. One for production has not the second.
const installed = ['.package-lock.json', '@modelcontextprotocol/server-everything/package.json'];
if (!installed.every((file) => existsSync(at(`node_modules/${file}`)))) {
  console.log(`Installing what the demo needs, once: Node.js 24, a legacy server, a modern client, and the libraries of the gateway.
This is npm ci. It takes about half a minute.`);
  const stopTicking = tick();
  const code = await run(...npm('ci', '--workspaces=false', '--no-progress', '--loglevel=error'));
  stopTicking();
  if (code !== 0) process.exit(code);
  console.log();
}

const node = nodeToUse();
if (node === null) {
  console.error(explain(process.versions.node, true));
  process.exit(1);
}
process.exit(await run(node, [at('demo/demo.ts'), ...process.argv.slice(2)]));

// Shows on a terminal that the installation goes on, and for how long. Returns a function that ends this.
function tick() {
  if (!process.stdout.isTTY) return () => {};
  const startedAt = Date.now();
  const show = () => process.stdout.write(`\r  ${Math.round((Date.now() - startedAt) / 1000)} s `);
  const timer = setInterval(show, 1000);
  return () => {
    clearInterval(timer);
    process.stdout.write('\n');
  };
}

// Returns a command and its arguments. The npm that runs this script says where it is.
function npm(...args) {
  const script = process.env.npm_execpath;
  return script?.endsWith('.js') ? [process.execPath, [script, ...args]] : ['npm', args];
}

// Returns a path, or null if neither the installed Node.js nor this one is new enough.
function nodeToUse() {
  const bundled = at(`node_modules/node/bin/node${process.platform === 'win32' ? '.exe' : ''}`);
  if (existsSync(bundled)) return bundled;
  return isRecentEnough(process.versions.node) ? process.execPath : null;
}

// Returns the exit code. Signals go to the child, which stops what it started.
function run(command, args) {
  return new Promise((done) => {
    const child = spawn(command, args, { cwd: root, stdio: 'inherit' });
    // A terminal sends Ctrl-C to both of us: only wait for the child then.
    const wait = () => {};
    const pass = (signal) => child.kill(signal);
    process.on('SIGINT', wait).on('SIGTERM', pass);
    const end = (code) => {
      process.off('SIGINT', wait).off('SIGTERM', pass);
      done(code);
    };
    child.once('exit', (code) => end(code ?? 1));
    child.once('error', (error) => {
      console.error(`${command}: ${error.message}`);
      end(1);
    });
  });
}
