/**
 * What reads texts of servers takes time in proportion to their length: twice as long a text takes no more than three times as long.
 * The time is that of the processor, so that it is the same on a busy machine, and it is compared only where there is enough of it.
 */
import { UNBOUNDED } from '../../../src/upstream/size-limits.ts';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { systemClock } from '../../../src/lib/clock.ts';
import { asOneLine, escapeUnseen } from '../../../src/lib/shown-text.ts';
import { isJsonMediaType } from '../../../src/edge/http/header-fields.ts';
import { shownName, shownProblem } from '../../../src/ops/live/snapshot.ts';
import { loggedTarget } from '../../../src/ops/tracing.ts';
import { downstreamHeaders } from '../../../src/front/passthrough/request.ts';
import { rewritingEndpoint } from '../../../src/front/passthrough/response.ts';
import { canonicalJson, excessOf, parseStrictly } from '../../../src/protocol/json.ts';
import { challengeParameter, publicChallenge } from '../../../src/protocol/protected-resource.ts';
import { errorFromServer, fromServer } from '../../../src/protocol/translate/cleaning.ts';
import { readProfile } from '../../../src/protocol/translate/client-profile.ts';
import { completeResult, discoverResult } from '../../../src/protocol/translate/edge-result.ts';
import { translateServerRequest } from '../../../src/protocol/translate/input-request.ts';
import { normaliseElicitationSchema } from '../../../src/protocol/translate/elicitation-schema.ts';
import { hasUserinfo, urlProblem } from '../../../src/protocol/web-url.ts';
import { type DiscardedMessage } from '../../../src/upstream/discarded-message.ts';
import { EventStreamBody, upstreamJson } from '../../../src/upstream/http/bodies.ts';
import { failureOfStatus } from '../../../src/upstream/http/error-response.ts';
import { MessagePaths } from '../../../src/upstream/transport/http-sse/message-paths.ts';
import { LineReader } from '../../../src/upstream/transport/stdio/lines.ts';
import { ProcessOutput } from '../../../src/upstream/transport/stdio/process-output.ts';
import { target } from '../target.ts';

const SERVER = new URL('http://server:3001/mcp');
const DISCOVERY = {
  supportedVersions: ['2026-07-28'],
  ttlMs: 0,
  canReceiveNotifications: true,
  offersTasks: true,
  extensions: [],
};
const PROFILE = readProfile({ elicitation: { form: {}, url: {} }, sampling: {}, roots: {} });
const EVENT_BYTES = 1024 * 1024;

/** What reads a text of a server. */
const READERS: Readonly<Record<string, (text: string) => void>> = {
  challenge(text) {
    publicChallenge(text, SERVER);
    challengeParameter(text, 'error');
  },
  'headers of a response'(text) {
    isJsonMediaType(text);
    const headers = { 'content-type': text, 'retry-after': text, date: text };
    failureOfStatus({ status: 503, headers, mediaType: 'application/json' }, text, true, 0);
    failureOfStatus({ status: 404, headers, mediaType: 'text/plain' }, text, true, 0);
  },
  'headers that pass through'(text) {
    const rules = { upstream: SERVER, path: '/mcp', challenge: String, set: {}, onLoopback: true };
    const value = text.replaceAll(/[^\t\x20-\x7e]/g, '');
    downstreamHeaders({ location: value, connection: value, link: value, vary: value }, rules);
  },
  'event stream': (text) => readEvents([Buffer.from(text)], EVENT_BYTES),
  'event stream in pieces': (text) => readEvents(inPieces(text), EVENT_BYTES),
  'event that is discarded': (text) => readEvents(inPieces(text), 64),
  'event stream that passes through': (text) => passThrough([Buffer.from(text)]),
  'event stream in pieces that passes through': (text) => passThrough(inPieces(text)),
  'lines of a process'(text) {
    const output = new ProcessOutput({ A: 'aaaaaaaa', B: '"\\"\\"\\"\\""' }, systemClock, () => {});
    const reader = new LineReader(EVENT_BYTES, (line) => output.wrote('stderr', line));
    for (const piece of inPieces(text)) reader.push(piece);
    reader.end();
  },
  'line that is discarded'(text) {
    const read = (line: DiscardedMessage) => void line.read();
    const reader = new LineReader(64, () => {}, read);
    for (const piece of inPieces(text)) reader.push(piece);
    reader.end();
  },
  JSON(text) {
    excessOf(text, 64);
    ignoreErrors(() => upstreamJson(text));
    ignoreErrors(() => parseStrictly(text));
    ignoreErrors(() => canonicalJson(parseStrictly(JSON.stringify({ [text]: [text, text] }))));
  },
  'URI of a resource'(text) {
    loggedTarget('resources/read', { uri: text });
    urlProblem(text);
    hasUserinfo(text);
  },
  'endpoint of a session'(text) {
    const paths = new MessagePaths(SERVER);
    paths.toldClient(text)();
    paths.resembles(text);
  },
  'text that is shown'(text) {
    escapeUnseen(text);
    asOneLine(text, 200);
    shownName(text);
    shownProblem(text);
  },
  'form that is asked for'(text) {
    const property = { type: 'string', pattern: text, format: text, title: text, enum: [text] };
    normaliseElicitationSchema({ type: 'object', properties: { [text]: property, a: property } });
  },
  'lists and instructions'(text) {
    const item = { name: text, description: text, uri: text, uriTemplate: text, inputSchema: {} };
    const context = { serverInfo: { name: text, version: text } };
    completeResult('tools/list', { tools: [item], nextCursor: text }, context);
    completeResult('resources/templates/list', { resourceTemplates: [item] }, context);
    const initialized = { instructions: text, capabilities: {}, ...context };
    discoverResult(initialized, DISCOVERY);
  },
  question(text) {
    const schema = { type: 'object', properties: { a: { type: 'string', description: text } } };
    const form = { message: text, requestedSchema: schema };
    translateServerRequest('elicitation/create', form, PROFILE, '2025-11-25');
    const visit = { mode: 'url', url: text, elicitationId: text, message: text };
    translateServerRequest('elicitation/create', visit, PROFILE, '2025-11-25');
    const messages = [{ role: 'user', content: { type: 'text', text } }];
    const sampling = { messages, systemPrompt: text, maxTokens: 1 };
    translateServerRequest('sampling/createMessage', sampling, PROFILE, '2025-11-25');
  },
  message(text) {
    fromServer({ [text]: text, _meta: { [text]: text } });
    errorFromServer({ code: -32603, message: text, data: { url: text, elicitations: [text] } });
  },
};

const FRAGMENTS = [
  ...[
    '"',
    '\\',
    '\\"',
    "'",
    ',',
    ';',
    '=',
    ' ',
    '\t',
    'a',
    'A',
    '0',
    '1e',
    '.',
    '-',
    '/',
    '//',
    '@',
  ],
  ...[':', '?', '#', '%', '%2f', '<', '>', '{', '}', '[', ']', '{"a":', '"a":1,', '\\u0061', '\0'],
  ...[
    '\n',
    '\r',
    '\r\n',
    '\n\n',
    'data:',
    'data: a\n\n',
    ': \n\n',
    'id: a\n',
    'event: a\n',
    'retry: 1\n',
  ],
  ...['Bearer ', 'resource_metadata=', 'http://', '\u202e', '\u200b', 'é', '\u{1f600}', '\ufeff'],
];
const fragment = fc.constantFrom(...FRAGMENTS);
const part = (minLength: number, maxLength: number) =>
  fc.array(fragment, { minLength, maxLength }).map((parts) => parts.join(''));

export const growth = target('growth', 40, () => ({
  inputs: fc.record({
    reader: fc.constantFrom(...Object.keys(READERS)),
    start: part(0, 3),
    repeated: part(1, 3),
    end: part(0, 2),
  }),
  examples: [
    { reader: 'event stream that passes through', start: '', repeated: ': \n\n', end: '' },
    { reader: 'challenge', start: 'Bearer ', repeated: '\\"', end: '' },
  ],
  check({ reader, start, repeated, end }) {
    const read = READERS[reader] ?? assert.fail();
    const textOf = (length: number) =>
      `${start}${repeated.repeat(Math.ceil(length / repeated.length))}${end}`;
    const spent = spentMs(read, textOf(2 * LENGTH));
    if (spent < ENOUGH_MS) return;
    const ofHalf = spentMs(read, textOf(LENGTH));
    const times = `${ofHalf} ms and, for twice as long a text, ${spent} ms`;
    assert(spent <= 3 * ofHalf, `${reader}: ${times}`);
  },
  stop: async () => {},
}));

/** Longer than most of what servers send, and short enough for thousands of texts. */
const LENGTH = 32 * 1024;
/** What takes less says nothing of its growth. */
const ENOUGH_MS = 20;
const RUNS = 5;

/** @returns the least time of the processor, in ms, of several runs */
function spentMs(read: (text: string) => void, text: string): number {
  const times: number[] = [];
  for (let run = 0; run < RUNS && (times.at(-1) ?? ENOUGH_MS) >= ENOUGH_MS; run += 1) {
    const before = process.threadCpuUsage();
    read(text);
    const { user, system } = process.threadCpuUsage(before);
    times.push((user + system) / 1_000);
  }
  return Math.min(...times);
}

function readEvents(chunks: readonly Buffer[], limit: number): void {
  const listener = { event: () => {}, retryAfter: () => {}, discardsLarge: limit < EVENT_BYTES };
  ignoreErrors(() => {
    const body = new EventStreamBody(limit, UNBOUNDED, listener);
    for (const chunk of chunks) body.write(chunk);
    body.end();
  });
}

function passThrough(chunks: readonly Buffer[]): void {
  const stream = rewritingEndpoint((endpoint) => endpoint);
  for (const chunk of chunks) stream._transform(chunk, 'utf8', () => {});
  stream.destroy();
}

function inPieces(text: string): Buffer[] {
  const bytes = Buffer.from(text);
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += 16) pieces.push(bytes.subarray(at, at + 16));
  return pieces;
}

function ignoreErrors(read: () => unknown): void {
  try {
    read();
  } catch {
    // Refused texts are read, too.
  }
}
