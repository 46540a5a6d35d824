/** The picture of the demo: what `npm run demo` writes, without what differs from run to run. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { drawTerminal } from './terminal.ts';

const DEMO = fileURLToPath(new URL('../../demo/demo.ts', import.meta.url));
/** Has a program write as to a terminal. */
const AS_TERMINAL = 'data:text/javascript,process.stdout.isTTY=true';
const TITLE = 'npm run demo';
const ACTS = ['1  A tool that asks the user', "2  A tool that asks the client's language model"];

/** Runs the demo. @returns a picture of its first call and its last line */
export async function demoPicture(): Promise<string> {
  const { NO_COLOR: _, ...env } = process.env;
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', AS_TERMINAL, DEMO], {
    env,
  });
  const lines = stdout.trimEnd().split('\n');
  const [from, to] = ACTS.map((act) => lines.findIndex((line) => line.includes(act)));
  if (from === undefined || to === undefined || from < 0 || to < from) {
    throw new Error(`the demo wrote no ${ACTS.join(' before ')}`);
  }
  const left = `\u001b[2m  (${lines.length - 2 - to} more lines)\u001b[22m`;
  const shown = [...lines.slice(from, to), left, ...lines.slice(-2)];
  return drawTerminal(TITLE, frozen(shown.join('\n')));
}

/** Leaves out how long a response took, and how long a sealed text is. On a slow machine a response becomes a stream. */
function frozen(text: string): string {
  return text
    .replace(/, \d+ ms\)/g, ')')
    .replaceAll('(event stream, ', '(JSON, ')
    .replace(/ {2}\(\d+ characters\)/g, '');
}
