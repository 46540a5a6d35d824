/**
 * The script of the live page. It asks for snapshots, and writes each value as text: no name that others choose can
 * become markup.
 */
/** @import { LiveCall, LiveRoute, LiveSnapshot, Series } from '../snapshot.ts' */
import { byId, cell, draw, keepRows, SVG, write } from './elements.js';

const STALE_MS = 5_000;

/** @type {readonly (readonly [Series, string])[]} */
const OUTCOMES = [
  ['succeeded', 'succeeded'],
  ['failed', 'failed'],
  ['abandoned', 'abandoned'],
  ['stopped', 'stopped'],
];

/** @type {Readonly<Record<string, string>>} */
const KINDS = {
  'elicitation-form': 'a form',
  'elicitation-url': 'a visit to a URL',
  'openai-form': 'a form (OpenAI)',
  sampling: 'a model',
  roots: 'roots',
};

/** @type {LiveSnapshot | null} */
let shown = null;
let seenAtMs = 0;
let isPaused = false;
/** @type {LiveCall | null} the call that the dialog asks about */
let toCancel = null;

// Words.

/** @param {number} ms */
function duration(ms) {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.floor(ms / 1_000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** @param {LiveCall} call */
function waitsFor({ kinds, state, isTask }) {
  const what =
    state === 'resultReady'
      ? 'its client to fetch the result'
      : kinds.map((kind) => KINDS[kind] ?? kind).join(', ') || 'its client to retry';
  return isTask ? `${what} (task)` : what;
}

/** @param {LiveRoute} route */
function serverOf({ server, isUp, circuitsOpen }) {
  if (circuitsOpen > 0) return `down, gets no new requests until it responds (${server})`;
  return isUp ? server : `down (${server})`;
}

/** @param {readonly number[]} values */
function total(values) {
  return values.reduce((sum, value) => sum + value, 0);
}

/**
 * Sums a series over all routes.
 * @param {LiveSnapshot} snapshot
 * @param {Series} name
 */
function sumOf({ routes }, name) {
  const [first, ...others] = routes.map(({ recent }) => recent[name]);
  return (first ?? []).map((value, at) =>
    others.reduce((sum, values) => sum + (values[at] ?? 0), value),
  );
}

/** @param {LiveRoute['recent']} recent */
function outcomesInWords(recent) {
  return OUTCOMES.map(([name, word]) => `${total(recent[name])} ${word}`).join(', ');
}

/**
 * @param {string} title
 * @param {readonly (readonly [string, readonly number[], string])[]} series with its name in words and its sum
 */
function figure(title, series) {
  const plots = byId('plots');
  const id = `plot-${title.replace(/\W+/g, '-')}`;
  let shape = document.getElementById(id);
  if (shape === null) {
    shape = document.createElement('figure');
    shape.id = id;
    const caption = document.createElement('figcaption');
    caption.textContent = title;
    const key = document.createElement('ul');
    key.className = 'key';
    for (const [name] of series) {
      const entry = document.createElement('li');
      const mark = document.createElementNS(SVG, 'svg');
      mark.setAttribute('viewBox', '0 0 1 1');
      mark.setAttribute('aria-hidden', 'true');
      const square = document.createElementNS(SVG, 'path');
      square.setAttribute('d', 'M0 0h1v1h-1z');
      square.setAttribute('class', name);
      mark.append(square);
      entry.append(mark, document.createElement('span'));
      key.append(entry);
    }
    const drawing = document.createElement('div');
    shape.append(caption, drawing, key);
    plots.append(shape);
  }
  series.forEach(([, , words], at) => {
    const entry = shape.querySelectorAll('li span')[at];
    if (entry !== undefined) write(entry, words);
  });
  const drawing = shape.querySelector('div');
  const label = `${title}: ${series.map(([, , words]) => words).join(', ')}`;
  if (drawing !== null) {
    draw(
      drawing,
      series.map(([name, values]) => [name, values]),
      label,
    );
  }
}

// The parts of the page.

/** @param {LiveSnapshot} snapshot */
function showTotals(snapshot) {
  const { routes, allCalls } = snapshot;
  /** @type {(key: 'running' | 'sessions') => number} */
  const sum = (key) => routes.reduce((all, route) => all + route[key], 0);
  const down = routes.filter(({ isUp, circuitsOpen }) => !isUp || circuitsOpen > 0).length;
  /** @type {readonly (readonly [string, number, string])[]} */
  const totals = [
    ['Calls that wait', allCalls, ''],
    ['Calls that run', sum('running'), ''],
    ['Sessions', sum('sessions'), ''],
    ['Servers down', down, down > 0 ? 'bad' : ''],
    ['Failed, 10 min', total(sumOf(snapshot, 'failed')), ''],
    ['Abandoned, 10 min', total(sumOf(snapshot, 'abandoned')), ''],
    ['Refused, 10 min', total(sumOf(snapshot, 'refused')), ''],
  ];
  const list = byId('totals');
  totals.forEach(([title, value, className], at) => {
    let group = list.children[at];
    if (group === undefined) {
      group = document.createElement('div');
      group.append(document.createElement('dt'), document.createElement('dd'));
      list.append(group);
    }
    const [term, number] = group.children;
    if (term === undefined || number === undefined) return;
    write(term, title);
    write(number, String(value));
    number.className = className;
  });
}

/** @param {LiveSnapshot} snapshot */
function showPlots(snapshot) {
  figure(
    'Calls that ended',
    OUTCOMES.map(([name, word]) => {
      const values = sumOf(snapshot, name);
      return [name, values, `${total(values)} ${word}`];
    }),
  );
  for (const [name, title] of /** @type {const} */ ([
    ['peopleMs', 'Time that people took'],
    ['serverMs', 'Time that servers took'],
  ])) {
    const values = sumOf(snapshot, name);
    figure(title, [[name, values, `${duration(total(values))} in all`]]);
  }
}

/** @param {LiveSnapshot} snapshot */
function showRoutes({ routes, allRoutes }) {
  keepRows(
    byId('routes'),
    routes,
    ({ id }) => id,
    (row, route) => {
      const { id, path, sessions, maxSessions, running, parked, released, tasks, recent } = route;
      const isDown = !route.isUp || route.circuitsOpen > 0;
      write(cell(row, 0, 'Route'), id === path.slice(1) ? path : `${id} (${path})`);
      const server = cell(row, 1, 'Server');
      write(server, serverOf(route));
      server.className = isDown ? 'bad' : 'good';
      write(cell(row, 2, 'Sessions'), `${sessions} of ${maxSessions}`);
      write(cell(row, 3, 'Running'), String(running));
      write(
        cell(row, 4, 'Waiting'),
        released > 0 ? `${parked}, and ${released} released` : String(parked),
      );
      const counts = Object.entries(tasks).filter(([, count]) => count > 0);
      write(
        cell(row, 5, 'Tasks'),
        counts.map(([of, count]) => `${count} ${of.replace('_', ' ')}`).join(', '),
      );
      const plot = cell(row, 6, 'Last 10 minutes');
      draw(
        plot,
        OUTCOMES.map(([name]) => [name, recent[name]]),
        outcomesInWords(recent),
      );
      showLinks(cell(row, 7, 'Add to'), route);
    },
  );
  const title = allRoutes > routes.length ? `Routes (${routes.length} of ${allRoutes})` : 'Routes';
  write(byId('routes-title'), title);
}

/** Shows links that open a client with the route as a server. @param {HTMLElement} links @param {LiveRoute} route */
function showLinks(links, { id, url }) {
  if (links.dataset['url'] === url) return;
  links.dataset['url'] = url;
  links.replaceChildren();
  const at = URL.parse(url);
  if (at === null) return;
  // All addresses are none that a client can use.
  if (at.hostname === '0.0.0.0' || at.hostname === '[::]') at.hostname = location.hostname;
  const code = { name: id, type: 'http', url: at.href };
  const config = encodeURIComponent(btoa(JSON.stringify({ url: at.href })));
  const cursor = 'cursor://anysphere.cursor-deeplink/mcp/install';
  for (const [client, href] of /** @type {const} */ ([
    ['VS Code', `vscode:mcp/install?${encodeURIComponent(JSON.stringify(code))}`],
    ['Cursor', `${cursor}?name=${encodeURIComponent(id)}&config=${config}`],
  ])) {
    const link = document.createElement('a');
    link.href = href;
    link.textContent = client;
    links.append(link, ' ');
  }
}

/** @param {LiveSnapshot} snapshot */
function showCalls({ calls, allCalls, atMs, actions }) {
  byId('action').hidden = !actions.includes('cancel');
  const words =
    allCalls === 0
      ? 'None.'
      : allCalls > calls.length
        ? `The ${calls.length} that wait longest, of ${allCalls}.`
        : '';
  write(byId('calls-note'), words);
  keepRows(
    byId('calls'),
    calls,
    ({ owner, id }) => `${owner} ${id}`,
    (row, call) => {
      write(cell(row, 0, 'Tool'), call.target || call.method);
      write(cell(row, 1, 'Waits for'), waitsFor(call));
      write(cell(row, 2, 'Since'), duration(atMs - call.sinceMs));
      write(cell(row, 3, 'Who'), call.who);
      write(cell(row, 4, 'Client'), call.client);
      write(cell(row, 5, 'Route'), call.route);
      write(
        cell(row, 6, 'Round'),
        call.recoveredBy === null ? `${call.round}` : `${call.round} (${call.recoveredBy})`,
      );
      write(cell(row, 7, 'Owner'), call.owner);
      showAction(cell(row, 8, 'Action'), call, actions.includes('cancel'));
    },
  );
}

/** @param {HTMLElement} action @param {LiveCall} call @param {boolean} isAllowed */
function showAction(action, call, isAllowed) {
  action.hidden = !isAllowed;
  if (!isAllowed || action.firstChild !== null) return;
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Cancel';
  button.setAttribute('aria-label', `Cancel ${call.target || call.method} of ${call.who}`);
  button.addEventListener('click', () => {
    write(byId('question'), `Cancel ${call.target || call.method} of ${call.who}?`);
    toCancel = call;
    dialog.showModal();
  });
  action.append(button);
}

async function cancel() {
  dialog.close();
  const call = toCancel;
  if (call === null) return;
  toCancel = null;
  const request = fetch('live/cancel', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-mrtr-gateway-action': 'cancel' },
    body: JSON.stringify({ call: call.id }),
  });
  const said = await request
    .then((response) => response.json())
    .then(({ status }) => String(status))
    .catch(() => 'no response');
  write(byId('done'), `${call.target || call.method} of ${call.who}: ${said}`);
  // The button that had the focus goes with its row.
  byId('waiting').focus();
}

/** @param {LiveSnapshot} snapshot */
function show(snapshot) {
  shown = snapshot;
  write(byId('version'), snapshot.version);
  const status = byId('status');
  write(status, snapshot.status);
  status.className = `pill ${snapshot.status === 'ready' ? 'good' : 'late'}`;
  document.title = `${snapshot.allCalls} waiting - mrtr-gateway`;
  const missing = byId('missing');
  missing.hidden = snapshot.missing.length === 0;
  write(missing, `No reply from ${snapshot.missing.join(', ')}: what they have is not shown.`);
  showTotals(snapshot);
  showPlots(snapshot);
  showRoutes(snapshot);
  showCalls(snapshot);
}

// The connection.

function showConnection() {
  const agoMs = Date.now() - seenAtMs;
  const isStale = seenAtMs === 0 || agoMs > STALE_MS;
  document.body.classList.toggle('stale', isStale && seenAtMs !== 0);
  write(byId('connection'), connectionInWords(isStale, agoMs));
}

/** @param {boolean} isStale @param {number} agoMs */
function connectionInWords(isStale, agoMs) {
  if (seenAtMs === 0) return 'connecting';
  // In whole steps, so that a screen reader does not read each second.
  if (isStale)
    return `stale for ${duration(Math.floor(agoMs / STALE_MS) * STALE_MS)}: reconnecting`;
  return isPaused ? 'paused' : 'live';
}

/** Asks each second. A stream would need a place, which others can take. */
async function follow() {
  try {
    const response = await fetch('live.json', { signal: AbortSignal.timeout(STALE_MS) });
    if (response.ok) take(await response.json());
  } catch {
    // What is shown gets stale.
  }
  setTimeout(() => void follow(), 1_000);
}

/** @param {LiveSnapshot} snapshot */
function take(snapshot) {
  seenAtMs = Date.now();
  if (isPaused && shown !== null) shown = snapshot;
  else show(snapshot);
  showConnection();
}

const dialog = /** @type {HTMLDialogElement} */ (byId('dialog'));
byId('yes').addEventListener('click', () => void cancel());
byId('no').addEventListener('click', () => dialog.close());
const pause = byId('pause');
pause.addEventListener('click', () => {
  isPaused = !isPaused;
  pause.setAttribute('aria-pressed', String(isPaused));
  if (!isPaused && shown !== null) show(shown);
  showConnection();
});
setInterval(showConnection, 1_000);
void follow();
