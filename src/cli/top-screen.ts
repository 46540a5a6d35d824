/** What `mrtr-gateway top` shows, as lines of text. */
import {
  BUCKETS,
  shownName,
  shownProblem,
  type LiveCall,
  type LiveRoute,
  type LiveSnapshot,
  type Series,
} from '../ops/live/snapshot.ts';

export interface Screen {
  readonly columns: number;
  readonly rows: number;
  readonly isColored: boolean;
}

type LineStyle = 'plain' | 'quiet' | 'bold' | 'bad' | 'good';
/** SGR codes. */
const CODES: Readonly<Record<LineStyle, number>> = {
  plain: 0,
  quiet: 2,
  bold: 1,
  bad: 31,
  good: 32,
};

interface ScreenLine {
  readonly text: string;
  readonly style: LineStyle;
}

/** Formats a snapshot. Lines are as wide as the screen, and as many as fit. */
export function screenOf(snapshot: LiveSnapshot, screen: Screen): string[] {
  const lines = [...headOf(snapshot), ...routesOf(snapshot), ...callsOf(snapshot)];
  return lines.slice(0, screen.rows).map(({ text, style }) => {
    const cut = [...text].slice(0, screen.columns).join('').trimEnd();
    const isPainted = screen.isColored && style !== 'plain';
    return isPainted ? `\u001b[${CODES[style]}m${cut}\u001b[0m` : cut;
  });
}

function headOf(snapshot: LiveSnapshot): ScreenLine[] {
  const { routes, allCalls, missing, processes } = snapshot;
  const sum = (values: (route: LiveRoute) => number) => totalOf(routes.map(values));
  const ended = (name: Series) => sum(({ recent }) => totalOf(recent[name]));
  const down = routes.filter(isDown).length;
  const now = [
    `${allCalls} waiting`,
    `${sum(({ running }) => running)} running`,
    plural(
      sum(({ sessions }) => sessions),
      'session',
    ),
    `${plural(down, 'server')} down`,
    plural(processes.length, 'process'),
  ];
  const recent = [...ENDS, 'refused' as const].map((name) => `${ended(name)} ${name}`);
  const times = `people ${duration(ended('peopleMs'))}, servers ${briefly(ended('serverMs'))}`;
  const title = `mrtr-gateway ${shownName(snapshot.version)}: ${snapshot.status}`;
  return [
    { text: title, style: snapshot.status === 'ready' ? 'good' : 'bad' },
    { text: now.join(', '), style: down > 0 ? 'bad' : 'plain' },
    { text: `Last 10 min: ${recent.join(', ')}; ${times}`, style: 'plain' },
    { text: plotOf(routes), style: 'quiet' },
    ...missing.map((name): ScreenLine => ({
      text: `No reply from ${shownName(name)}`,
      style: 'bad',
    })),
    { text: '', style: 'plain' },
  ];
}

function routesOf({ routes, allRoutes }: LiveSnapshot): ScreenLine[] {
  const rows = routes.map((route) => [
    route.id,
    serverOf(route),
    `${route.sessions}/${route.maxSessions}`,
    String(route.running),
    String(route.parked + route.released),
    String(totalOf(route.recent.failed)),
  ]);
  const head = ['ROUTE', 'SERVER', 'SESSIONS', 'RUNNING', 'WAITING', 'FAILED'];
  const styles = routes.map((route) => (isDown(route) ? 'bad' : 'plain'));
  return [...table(head, rows, styles), more(allRoutes - routes.length), ...EMPTY].flat();
}

function callsOf({ calls, allCalls, atMs }: LiveSnapshot): ScreenLine[] {
  const rows = calls.map((call) => [
    call.target || call.method,
    waitsFor(call),
    duration(atMs - call.sinceMs),
    call.who,
    call.client,
    call.route,
    call.recoveredBy === null ? String(call.round) : `${call.round} (${call.recoveredBy})`,
    call.owner,
  ]);
  const head = ['TOOL', 'WAITS FOR', 'SINCE', 'WHO', 'CLIENT', 'ROUTE', 'ROUND', 'OWNER'];
  return [...table(head, rows, []), more(allCalls - calls.length)].flat();
}

const EMPTY: readonly ScreenLine[] = [{ text: '', style: 'plain' }];

function more(count: number): ScreenLine[] {
  return count > 0 ? [{ text: `and ${count} more`, style: 'quiet' }] : [];
}

/** Aligns rows in columns. */
function table(
  head: readonly string[],
  rows: readonly string[][],
  styles: LineStyle[],
): ScreenLine[] {
  const shown = rows.map((cells) => cells.map(shownName));
  const widths = head.map((title, at) =>
    Math.max(title.length, ...shown.map((cells) => cells[at]?.length ?? 0)),
  );
  const line = (cells: readonly string[]) =>
    cells.map((text, at) => text.padEnd(widths[at] ?? 0)).join('  ');
  return [
    { text: line(head), style: 'bold' },
    ...shown.map((cells, at): ScreenLine => ({ text: line(cells), style: styles[at] ?? 'plain' })),
  ];
}

function isDown({ isUp, circuitsOpen }: LiveRoute): boolean {
  return !isUp || circuitsOpen > 0;
}

function serverOf(route: LiveRoute): string {
  return isDown(route) ? `down (${shownProblem(route.server)})` : route.server;
}

function waitsFor({ kinds, state, isTask }: LiveCall): string {
  const what = state === 'resultReady' ? 'its client' : kinds.join(', ') || 'its client';
  return isTask ? `${what} (task)` : what;
}

/** How a call can end. */
const ENDS = ['succeeded', 'failed', 'abandoned', 'stopped'] as const;
const BARS = ' ▁▂▃▄▅▆▇█';

/** Plots how many calls ended, one character for each bar. */
function plotOf(routes: readonly LiveRoute[]): string {
  const sums = Array.from({ length: BUCKETS }, (_, at) =>
    totalOf(routes.flatMap(({ recent }) => ENDS.map((name) => recent[name][at] ?? 0))),
  );
  const most = Math.max(1, ...sums);
  return sums.map((value) => BARS[Math.ceil((value / most) * (BARS.length - 1))]).join('');
}

function totalOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

function plural(count: number, what: string): string {
  const end = what.endsWith('s') ? 'es' : 's';
  return `${count} ${what}${count === 1 ? '' : end}`;
}

function duration(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes}m${seconds % 60}s`
    : `${Math.floor(minutes / 60)}h${minutes % 60}m`;
}

/** Servers can take less than a second in all. */
function briefly(ms: number): string {
  return ms > 0 && ms < 1_000 ? `${Math.ceil(ms)}ms` : duration(ms);
}
