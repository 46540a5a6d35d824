/** Derives a configuration file from the findings of a probe, with notes that explain it. */
import { asOneLine } from '../lib/shown-text.ts';
import type { JsonObject } from '../protocol/json.ts';
import type { ToolEntry } from '../upstream/discovery/listings.ts';
import type { Advice, Findings, RealCallReport, SessionsReport } from './report.ts';

/** The parts of the upstream URL and headers that the findings omit. */
export interface ProbeContext {
  /** Names only: the values can be credentials. */
  readonly headerNames: readonly string[];
  readonly query: boolean;
  /** Names of the variables of a command. */
  readonly variableNames?: readonly string[];
}

export function advise(findings: Findings, context: ProbeContext): Advice {
  const { headerNames, query, variableNames = [] } = context;
  const annotated = findings.tools.items.filter(isRepeatable).map(({ name }) => name);
  const release = releaseOf(findings);
  const isBridged = findings.served === 'bridged';
  const stateless = isBridged && findings.sessions.kind === 'none';
  const common = {
    releaseWhenResumable: release,
    statefulWithoutSessionId: stateless,
    annotatedTools: annotated,
  };
  if (!isBridged && findings.command !== null) {
    const config = { routes: [commandRoute(findings.command, variableNames)] };
    return { ...common, gatewayNeeded: true, config, notes: MODERN_STDIO_NOTES };
  }
  if (!isBridged) {
    const notes = [
      'The server speaks 2026-07-28 itself, and accepts no legacy handshake with a session. Modern clients can use it without the gateway, which only passes their requests through.',
    ];
    return { ...common, gatewayNeeded: false, config: null, notes };
  }
  const notes = [
    ...eraNotes(findings),
    ...sessionNotes(findings),
    ...(findings.command === null ? releaseNotes(release, findings) : STDIO_NOTES),
    ...replayNotes(annotated),
    ...dialectNotes(findings.tools.items),
    ...headerNotes(headerNames),
    ...(query
      ? ['Add the query of your URL. It is omitted here, since it can contain a credential.']
      : []),
  ];
  const route =
    findings.command === null
      ? routeOf(findings, headerNames)
      : commandRoute(findings.command, variableNames);
  const config = { routes: [route] };
  return { ...common, gatewayNeeded: true, config, notes };
}

/** How many tools a note names. */
const MAX_NAMED = 20;

function isRepeatable({ readOnly, idempotent }: ToolEntry): boolean {
  return readOnly || idempotent;
}

function releaseOf({ sessions, resumption }: Findings): Advice['releaseWhenResumable'] {
  if (sessions.kind !== 'session-id') return 'impossible';
  if (resumption.lastEventId === 'replayed') return 'possible';
  return resumption.lastEventId === 'opened' ? 'unproven' : 'impossible';
}

function routeOf(
  { url, transport, realCall, sessions }: Findings,
  headerNames: readonly string[],
): JsonObject {
  const headers = Object.fromEntries(
    headerNames.map((name) => [name, `\${${variableFor(name)}}`] as const),
  );
  return {
    path: '/mcp',
    upstream: { url, transport, ...(headerNames.length === 0 ? {} : { headers }) },
    ...(isOneSession(sessions) ? { sessions: { max: 1 } } : {}),
    ...(realCall?.outcome === 'resumed' ? { parking: { release: 'when-resumable' } } : {}),
  };
}

function commandRoute(
  [command = '', ...args]: readonly string[],
  names: readonly string[],
): JsonObject {
  const env = Object.fromEntries(names.map((name) => [name, `\${${name}}`] as const));
  return {
    path: '/mcp',
    upstream: {
      command,
      ...(args.length === 0 ? {} : { args }),
      ...(names.length === 0 ? {} : { env }),
    },
  };
}

const STDIO_NOTES = [
  'Each session is a process of its own. A parked call is lost if its process or its gateway ends.',
  'Questions over stdio name no call, so calls of tools that were seen to ask start one after the other, beside parked ones. Tools that ended without a question before run together.',
];

const MODERN_STDIO_NOTES = [
  'The server speaks 2026-07-28 itself, and refuses a legacy handshake. Nothing is translated: the gateway passes the requests of each caller to a process of its own.',
];

function variableFor(headerName: string): string {
  return `UPSTREAM_${headerName.toUpperCase().replace(/[^A-Z0-9]/g, '_')}`;
}

function eraNotes({ modern, onlyModern }: Findings): string[] {
  if (!modern) return [];
  const missing = onlyModern.map(({ what, names }) => `${what}: ${names.slice(0, 20).join(', ')}`);
  return [
    'The server also speaks 2026-07-28. The gateway still uses its legacy sessions: a tool that asks with elicitation/create, sampling/createMessage or roots/list can ask only in a legacy session ("no back-channel"). If no tool asks in that way, modern clients need no gateway, and upstream.era: modern passes their requests through.',
    ...(missing.length === 0
      ? []
      : [`Only modern clients see, and clients of the gateway do not: ${missing.join('; ')}.`]),
  ];
}

function sessionNotes({ sessions }: Findings): string[] {
  if (sessions.kind === 'none') {
    return [
      'The server issues no session id, so an answer could reach a process that did not ask the question. The gateway therefore declares no capabilities to it. If the server is a single process that keeps its state, set upstream.statefulWithoutSessionId: true.',
    ];
  }
  const one = isOneSession(sessions) ? [ONE_SESSION[sessions.second]] : [];
  const notes = [SHARED_SESSION[sessions.kind], ...one];
  if (sessions.withoutId !== 'accepted') return notes;
  return [...notes, 'The server issues a session id, but also accepts requests without one.'];
}

type OneSessionReport = SessionsReport & { readonly second: keyof typeof ONE_SESSION };

/** Tells whether a server stands one session at a time. */
export function isOneSession(sessions: SessionsReport): sessions is OneSessionReport {
  return sessions.second in ONE_SESSION;
}

/** Why the server gets one session at a time. */
const ONE_SESSION = {
  refused:
    'The server refuses a session beside another one, so the file above sets sessions.max: 1. Calls of different callers run one at a time.',
  broke:
    'A session beside another one ended that, or the server, so the file above sets sessions.max: 1. Calls of different callers run one at a time.',
};

/** What becomes of what the server keeps for a caller. */
const SHARED_SESSION = {
  'session-id':
    'All calls of a caller share a session, so the next call finds what the server keeps in it. With several replicas, this needs relay, with redis. When the replica that has the session ends, another one takes it over.',
  stream:
    'All calls of a caller share a session, so the next call finds what the server keeps in it. Calls of tools that were seen to ask start one after the other. The session ends with the process that opened it: no other replica can go on with it.',
  process:
    'All calls of a caller share a process, so the next call finds what the server keeps in memory.',
};

function releaseNotes(release: Advice['releaseWhenResumable'], findings: Findings): string[] {
  switch (release) {
    case 'possible':
      return [
        'parking.release: when-resumable is possible: a parked call then holds no connection.',
        realCallNote(findings.realCall),
      ];
    case 'unproven':
      return [
        'parking.release: when-resumable might work: the server reopens streams, but did not replay the missed event.',
        ...unusedCallNotes(findings.realCall),
      ];
    case 'impossible':
      return [
        `A parked call keeps its connection, and is lost if the connection breaks: ${whyNotResumable(findings)}. parking.release: when-resumable would have no effect.`,
        ...unusedCallNotes(findings.realCall),
      ];
  }
}

/** Says that a call was made, since it can have effects, where no call verifies anything. */
function unusedCallNotes(realCall: Findings['realCall']): string[] {
  if (realCall === null) return [];
  const tool = asOneLine(realCall.tool, 100);
  const outcomes: Partial<Record<RealCallReport['outcome'], string>> = {
    'tool-error': ` The tool reported an error${said(realCall)}.`,
    failed: ` The server did not accept it${said(realCall)}.`,
    'held-back': ` It ${HELD_BACK}`,
  };
  const problem = outcomes[realCall.outcome] ?? '';
  return [
    `The call of ${tool} was sent, and verified nothing: that needs a server that replays the missed events of a stream.${problem}`,
  ];
}

function realCallNote(realCall: Findings['realCall']): string {
  if (realCall === null) {
    return 'The file above does not set it: only a call that asks shows whether the server also sends new events on a resumed stream, and this probe made none, since a tool can have effects. If the server does not, results arrive about 5 seconds late. To find out, name a harmless tool that asks: probe --call TOOL.';
  }
  const tool = asOneLine(realCall.tool, 100);
  const notes = {
    resumed: `The file above sets it: the probe released the call of ${tool} at its question and resumed it, and the result came ${realCall.answerMs} ms after the answer.`,
    late: `The file above does not set it: the probe released the call of ${tool} at its question and resumed it, and the result did not come within 3 seconds of the answer. Results of released calls would arrive about 5 seconds late.`,
    'not-asked': `The file above does not set it: ${tool} asked nothing on the stream of its call, so nothing was verified.`,
    'tool-error': `The file above does not set it: the call of ${tool} asked nothing and ended with an error of the tool${said(realCall)}, so nothing was verified.`,
    'held-back': `The file above does not set it: the call of ${tool} ${HELD_BACK}`,
    failed: `The file above does not set it: the server did not accept the call of ${tool}${said(realCall)}.`,
  };
  return notes[realCall.outcome];
}

const HELD_BACK =
  'was taken, and nothing came in 5 seconds. If it asks, a proxy in front of the server holds responses back until they are complete, and no question arrives (nginx: proxy_buffering off). A server that responds with JSON does the same while a tool is slow.';

/** Returns the words of the server about a call, as the end of a clause. */
function said({ problem }: RealCallReport): string {
  return problem === null ? '' : `: "${problem}"`;
}

function whyNotResumable({ transport, sessions, resumption }: Findings): string {
  if (transport === 'http-sse') return 'HTTP+SSE cannot be resumed';
  if (sessions.kind === 'none') return 'the server issues no session id';
  const noReply = 'the server did not reply to the test ping';
  const reasons = {
    seen: 'events have ids, but a GET with Last-Event-ID does not open a stream',
    'not-seen': 'events have no ids',
    'no-events': 'the server responds with JSON, not with event streams',
    'no-answer': noReply,
    'not-tried': noReply,
  };
  return reasons[resumption.eventIds];
}

function replayNotes(annotated: readonly string[]): string[] {
  if (annotated.length === 0) return [];
  const tools = annotated.length === 1 ? '1 tool is' : `${annotated.length} tools are`;
  return [
    `${tools} annotated as read-only or idempotent. If you trust that, set continuation.replay.annotated: true, so that lost calls are repeated.`,
  ];
}

function dialectNotes(tools: readonly ToolEntry[]): string[] {
  const older = tools.filter(({ olderDialect }) => olderDialect !== undefined);
  if (older.length === 0) return [];
  const left = older.filter(({ olderDialect }) => olderDialect === 'left').map(({ name }) => name);
  const count = older.length === 1 ? '1 tool has a schema' : `${older.length} tools have schemas`;
  const note = `${count} of an older dialect of JSON Schema, at which some clients drop a tool, or all. tools.schemas: compatible takes its name off where the schema means the same in 2020-12.`;
  if (left.length === 0) return [note];
  const names = left.slice(0, MAX_NAMED).map((name) => asOneLine(name, 100));
  const more = left.length > names.length ? ` and ${left.length - names.length} more` : '';
  return [`${note} It leaves those of ${names.join(', ')}${more}.`];
}

function headerNotes(headerNames: readonly string[]): string[] {
  if (headerNames.length === 0) return [];
  return ['The headers read their values from environment variables.'];
}
