/** `mrtr-gateway top`: the live page of a gateway in a terminal. */
import { sleep, systemClock, type Clock } from '../lib/clock.ts';
import { liveSnapshot, shownProblem, type LiveSnapshot } from '../ops/live/snapshot.ts';
import type { CommandOf, Host } from './arguments.ts';
import { endedBy, EXIT, type ExitCode } from './exit-codes.ts';
import { screenOf } from './top-screen.ts';

const REFRESH_MS = 1_000;
const TIMEOUT_MS = 5_000;
/** Not a terminal: as wide as a file may be. */
const COLUMNS = 200;

const ENTER = '\u001b[?1049h\u001b[?25l';
const LEAVE = '\u001b[?25h\u001b[?1049l';
const CTRL_C = '\u0003';

/** Shows what happens now: once, or on a terminal until `q` or Ctrl-C. @returns the exit code */
export async function top(
  { url, once }: CommandOf<'top'>,
  host: Host,
  clock: Clock = systemClock,
): Promise<ExitCode> {
  const { stdout, stderr } = host;
  if (once || stdout.isTTY !== true) {
    const snapshot = await look(url);
    if (typeof snapshot === 'string') {
      stderr.write(`mrtr-gateway: ${snapshot}\n`);
      return EXIT.upstream;
    }
    const screen = { columns: COLUMNS, rows: Infinity, isColored: false };
    stdout.write(`${screenOf(snapshot, screen).join('\n')}\n`);
    return EXIT.ok;
  }
  const left = leaving(host);
  stdout.write(ENTER);
  let shown: readonly string[] = [];
  while (!left.aborted) {
    const snapshot = await look(url);
    if (left.aborted) break;
    const { columns = 80, rows = 24 } = stdout;
    const isColored = !host.env['NO_COLOR'];
    if (typeof snapshot !== 'string') {
      shown = screenOf(snapshot, { columns, rows: rows - 1, isColored });
    }
    const note = typeof snapshot === 'string' ? `Stale, trying again: ${snapshot}` : 'q quits';
    const lines = [...shown, note.slice(0, columns)];
    stdout.write(`\u001b[H${lines.map((line) => `${line}\u001b[K`).join('\n')}\u001b[J`);
    await sleep(clock, REFRESH_MS, left);
  }
  stdout.write(LEAVE);
  return EXIT.ok;
}

/** @returns a snapshot, or what is wrong */
async function look(url: string): Promise<LiveSnapshot | string> {
  const address = new URL('live.json', url.endsWith('/') ? url : `${url}/`);
  try {
    const response = await fetch(address, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (response.ok) return liveSnapshot.parse(await response.json());
    // A name that others could own is refused.
    const expected =
      response.status === 403
        ? 'the IP address of a gateway, or the name in its "admin"'
        : 'the admin listener of a gateway';
    return `${address.href} responded with HTTP ${response.status}; expected ${expected}`;
  } catch (error) {
    if (error instanceof Error && error.name === 'ZodError') {
      return `${address.href} has an unknown format: use the mrtr-gateway version of that gateway`;
    }
    const { cause, message } = error as Error;
    const why = cause instanceof Error && cause.message !== '' ? cause.message : message;
    return `cannot read ${address.href}: ${shownProblem(why)}`;
  }
}

/** @returns a signal that aborts when the user leaves */
function leaving(host: Host): AbortSignal {
  const left = endedBy(host);
  host.stdin?.setRawMode?.(true);
  host.stdin?.on?.('data', (keys: unknown) => {
    if (/q/i.test(String(keys)) || String(keys).includes(CTRL_C)) left.abort();
  });
  return left.signal;
}
