/** What somebody who has read the findings would put into a configuration file, and why. */
import type { JsonObject } from '../protocol/json/json.ts';
import type { Advice, Findings, ToolEntry } from './report.ts';

/** What the findings do not show. */
export interface Circumstances {
  /** The values of these headers are nobody's business. */
  readonly headerNames: readonly string[];
  readonly query: boolean;
  /** False when `upstream.transport: auto` would not find out by itself. */
}

export function advise(findings: Findings, circumstances: Circumstances): Advice {
  const { headerNames, query } = circumstances;
  const annotated = findings.tools.items.filter(mayBeMadeAnew).map(({ name }) => name);
  const release = releaseOf(findings);
  const stateless = !findings.modern && findings.sessions.kind === 'none';
  const common = {
    releaseWhenResumable: release,
    statefulWithoutSessionId: stateless,
    annotatedTools: annotated,
  };
  if (findings.modern) {
    const notes = ['It speaks 2026-07-28 itself: modern clients can use it as it is.'];
    return { ...common, gatewayNeeded: false, config: null, notes };
  }
  const notes = [
    ...sessionNotes(findings),
    ...releaseNotes(release, findings),
    ...replayNotes(annotated),
    ...headerNotes(headerNames),
    ...(query ? ['Add the query of your URL, which is left out as it may hold a credential.'] : []),
  ];
  const config = { routes: [routeOf(findings, release, headerNames)] };
  return { ...common, gatewayNeeded: true, config, notes };
}

function mayBeMadeAnew({ readOnly, idempotent }: ToolEntry): boolean {
  return readOnly || idempotent;
}

function releaseOf({ sessions, resumption }: Findings): Advice['releaseWhenResumable'] {
  if (sessions.kind !== 'session-id') return 'impossible';
  if (resumption.lastEventId === 'replayed') return 'possible';
  return resumption.lastEventId === 'opened' ? 'unproven' : 'impossible';
}

function routeOf(
  { url, transport }: Findings,
  release: Advice['releaseWhenResumable'],
  headerNames: readonly string[],
): JsonObject {
  const headers = Object.fromEntries(
    headerNames.map((name) => [name, `\${${variableFor(name)}}`] as const),
  );
  return {
    path: '/mcp',
    upstream: { url, transport, ...(headerNames.length === 0 ? {} : { headers }) },
    ...(release === 'possible' ? { parking: { release: 'when-resumable' } } : {}),
  };
}

function variableFor(headerName: string): string {
  return `UPSTREAM_${headerName.toUpperCase().replace(/[^A-Z0-9]/g, '_')}`;
}

function sessionNotes({ sessions }: Findings): string[] {
  if (sessions.kind === 'none') {
    return [
      'It hands out no session id, so the answer to a question may reach a process that never asked: it will not be asked to ask. If it is one single process that keeps its state, set upstream.statefulWithoutSessionId: true.',
    ];
  }
  if (sessions.withoutId !== 'accepted') return [];
  return ['It hands out a session id, and serves requests without one as well.'];
}

function releaseNotes(release: Advice['releaseWhenResumable'], findings: Findings): string[] {
  switch (release) {
    case 'possible':
      return [
        'parking.release: when-resumable is possible: a call that waits for a human then takes no connection.',
        'Whether the server also writes what is new to a stream that was taken up only a call can show; where it does not, results come some 5 seconds late.',
      ];
    case 'unproven':
      return [
        'parking.release: when-resumable may be possible: streams are opened again, but nothing came to prove that missed events do.',
      ];
    case 'impossible':
      return [
        `parking.release: when-resumable has no effect: ${whyNotResumable(findings)}. A parked call keeps its connection, and ends with it.`,
      ];
  }
}

function whyNotResumable({ transport, sessions, resumption }: Findings): string {
  if (transport === 'http-sse') return 'HTTP+SSE cannot be resumed';
  if (sessions.kind === 'none') return 'there is no session id to come back with';
  switch (resumption.eventIds) {
    case 'seen':
      return 'its events have ids, and a GET with Last-Event-ID is not answered with a stream';
    case 'not-seen':
      return 'its events have no ids';
    case 'no-events':
      return 'it answers with JSON and not with events';
    case 'no-answer':
    case 'not-tried':
      return 'it did not answer the ping that was to tell';
  }
}

function replayNotes(annotated: readonly string[]): string[] {
  if (annotated.length === 0) return [];
  const tools =
    annotated.length === 1 ? '1 tool says it is' : `${annotated.length} tools say they are`;
  return [
    `${tools} read-only or idempotent. If you trust that, continuation.replay.annotated: true lets their calls be made anew when nothing else can save them.`,
  ];
}

function headerNotes(headerNames: readonly string[]): string[] {
  if (headerNames.length === 0) return [];
  return ['The headers of the snippet read their values from the environment.'];
}
