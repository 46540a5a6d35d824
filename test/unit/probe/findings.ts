/** Findings about an ordinary legacy server, for tests of what is made of them. */
import type { Findings } from '../../../src/probe/report.ts';
import type { Entry, Listing } from '../../../src/upstream/discovery/listings.ts';

export function listing<Item extends Entry>(
  items: readonly Item[],
  also: Partial<Listing<Item>> = {},
): Listing<Item> {
  return { declared: true, items, truncated: false, problem: null, ...also };
}

export function findings(also: Partial<Findings> = {}): Findings {
  return {
    format: 1,
    url: 'http://127.0.0.1:3001/mcp',
    command: null,
    modern: false,
    clockAheadMs: 0,
    served: 'bridged',
    onlyModern: [],
    transport: 'streamable-http',
    revision: '2025-06-18',
    supportedRevisions: null,
    server: { name: 'files', title: null, version: '1.0.0' },
    capabilities: { tools: { listChanged: true }, logging: {} },
    sessions: { kind: 'session-id', withoutId: 'refused', deleteStatus: 200, second: 'accepted' },
    standaloneStream: { offered: 'yes', httpStatus: 200 },
    resumption: { eventIds: 'seen', lastEventId: 'replayed', httpStatus: 200 },
    realCall: null,
    tools: listing([
      { name: 'read', description: 'Reads a file', readOnly: true, idempotent: false },
      { name: 'delete', description: 'Deletes it', readOnly: false, idempotent: true },
      { name: 'append', description: null, readOnly: false, idempotent: false },
    ]),
    prompts: listing<Entry>([], { declared: false }),
    resources: listing([], { declared: false }),
    resourceTemplates: listing([], { declared: false }),
    ...also,
  };
}

export const PLAIN = { headerNames: [], query: false } as const;
