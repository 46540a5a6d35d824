/**
 * What a server over stdio writes, through the real transport and a process: each line that is a message is told, in its
 * order, wherever the output is cut, and of one that is too long what it is for; the rest is skipped, and the session ends with a failure of the server.
 */
import { UNBOUNDED } from '../../../src/upstream/size-limits.ts';
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { systemClock } from '../../../src/lib/clock.ts';
import type { JsonValue } from '../../../src/protocol/json.ts';
import { readMessage, type JsonRpcMessage } from '../../../src/protocol/json-rpc.ts';
import type { DroppedMessage } from '../../../src/model/channel.ts';
import { UpstreamFailure } from '../../../src/model/upstream-failure.ts';
import { upstreamJson } from '../../../src/upstream/http/bodies.ts';
import { LineReader } from '../../../src/upstream/transport/stdio/lines.ts';
import { ProcessOutput } from '../../../src/upstream/transport/stdio/process-output.ts';
import { StdioTransport } from '../../../src/upstream/transport/stdio/stdio.ts';
import type { TransportListener } from '../../../src/upstream/transport/transport.ts';
import { cutAt, cuts, mutated } from '../mutations.ts';
import { target } from '../target.ts';

const MAX_LINE_BYTES = 2_000;
const MESSAGES = [
  '{"jsonrpc":"2.0","id":1,"result":{"a":"ü"}}',
  '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}',
  '[{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}]',
  '{"jsonrpc":"2.0","id":12345678901234567890,"error":{"code":-1,"message":"m"}}',
];
const SEEDS = [`${MESSAGES.join('\n')}\n`, `Server started\r\n${MESSAGES[0]}\r\n\r\n`, ...MESSAGES];
const TOKENS = [
  ...[
    '\n',
    '\r\n',
    '\r',
    '\0',
    '{',
    '}',
    '[',
    ']',
    '"',
    '\\',
    ',',
    ' ',
    '{}',
    '[]',
    'null',
    '1e999',
  ],
  ...['"id":null', '"jsonrpc":"1.0"', '"__proto__":{"a":1},', '\u2028', '\uFEFF', '['.repeat(100)],
  ...['x'.repeat(3_000), '{"level":"info"}', '"method":5'],
];

export const stdio = target('stdio', 12, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'mrtr-gateway-fuzz-'));
  const file = join(folder, 'written');
  return {
    inputs: fc.record({ text: mutated(SEEDS, TOKENS), cuts }),
    async check(input) {
      const bytes = Buffer.from(input.text);
      const lines = linesOf([bytes]);
      assert.deepEqual(linesOf(cutAt(bytes, input.cuts)), lines, 'cut otherwise');
      await writeFile(file, bytes);
      const { told, failure } = await sessionWith(file);
      assert.match(failure.code, /^upstream_/);
      assert.deepEqual(told, messagesOf(lines));
      assert.equal(({} as Record<string, unknown>)['a'], undefined, 'a prototype was changed');
    },
    stop: () => rm(folder, { recursive: true, force: true }),
  };
});

/** A line that is too long is there as what can be told of it. */
type Line = string | DroppedMessage | null;

function linesOf(chunks: readonly Buffer[]): Line[] {
  const lines: Line[] = [];
  const reader = new LineReader(
    MAX_LINE_BYTES,
    (line) => lines.push(line),
    (line) => lines.push(line.read()),
  );
  for (const chunk of chunks) reader.push(chunk);
  reader.end();
  return lines;
}

/** Runs a session whose server writes the file and ends. */
function sessionWith(file: string): Promise<{ told: unknown[]; failure: UpstreamFailure }> {
  return new Promise((resolve) => {
    const told: unknown[] = [];
    const listener = {
      message: (message: unknown) => void told.push(message),
      dropped: (message: unknown) => void told.push(message),
      closed: (failure: UpstreamFailure) => resolve({ told, failure }),
    } as Partial<TransportListener> as TransportListener;
    const transport = new StdioTransport(listener, {
      ...{ command: 'cat', args: [file], env: { PATH: process.env['PATH'] ?? '' }, cwd: null },
      ...{
        held: UNBOUNDED,
        maxLineBytes: MAX_LINE_BYTES,
        maxUnreadMs: 10_000,
        maxAgeMs: 3_600_000,
      },
      output: new ProcessOutput({}, systemClock, () => {}),
      clock: systemClock,
      onStart: () => {},
      onEnd: () => {},
    });
    void transport.open();
  });
}

/** The messages up to the line that ends the session. */
function messagesOf(lines: readonly Line[]): (JsonRpcMessage | DroppedMessage)[] {
  const told: (JsonRpcMessage | DroppedMessage)[] = [];
  for (const line of lines) {
    if (typeof line !== 'string') {
      if (line === null) return told;
      told.push(line);
      continue;
    }
    const value = valueOf(line);
    if (value === 'too deep') return told;
    if (value === null) continue;
    const messages = (Array.isArray(value) ? value : [value]).map(readMessage);
    if (messages.every((one) => one.type === 'malformed' && one.id === undefined)) continue;
    told.push(...messages);
  }
  return told;
}

function valueOf(line: string): JsonValue {
  if (!/^\s*[{[]/.test(line)) return null;
  try {
    return upstreamJson(line);
  } catch (error) {
    assert(error instanceof UpstreamFailure);
    return error.details.cause === undefined ? 'too deep' : null;
  }
}
