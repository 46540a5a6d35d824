/** Messages of servers of which a part has come, and that take memory until their end: what all of them can take together. */
import { describe, expect, test } from 'vitest';
import { callTool, type Exchanged } from '../../fixtures/clients/modern-client.ts';
import { ground } from '../../fixtures/gateways/survival-testbed.ts';
import { eventStream, type Answer } from '../../fixtures/servers/scripted-server.ts';

const MIB = 1024 * 1024;
/** Half of it is for messages, and half of that for those of one server. */
const MEMORY = { memoryBytes: 16 * MIB };
const PART = 'x'.repeat(3 * MIB);
const NO_ROOM =
  'The server sent a message that is too large for the gateway (limits.maxMemoryPercent leaves no room for it now)';

/** Replies with a large result of which the end comes when the test says so. */
function replies(begin: (response: Parameters<Answer>[1], text: string) => void) {
  const ends: (() => void)[] = [];
  let hasBegun = () => {};
  const onCall: Answer = ({ body }, response) => {
    const start = `{"jsonrpc":"2.0","id":${body.id},"result":{"content":[{"type":"text","text":"${PART}`;
    begin(response, start);
    ends.push(() => response.end('"}]}}\n\n'));
    hasBegun();
  };
  const begun = (count: number) =>
    new Promise<void>((resolve) => {
      hasBegun = () => {
        if (ends.length >= count) resolve();
      };
      hasBegun();
    });
  return { onCall, begun, end: () => ends.shift()?.() };
}

const lengthOf = ({ response }: Exchanged) => response.result?.content[0].text.length;

describe.each<[string, (response: Parameters<Answer>[1], text: string) => void]>([
  ['events', (response, text) => void eventStream(response).raw(`data: ${text}`)],
  [
    'JSON',
    (response, text) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write(text);
    },
  ],
])('results that come as %s', (_form, begin) => {
  // Rule limits-15: Unfinished messages take at most half of the memory of `limits.maxMemoryPercent`, and those of
  // one server half of that.
  test('take no more than their part of the memory, and make room when they end', async () => {
    const { onCall, begun, end } = replies(begin);
    const field = await ground(MEMORY, onCall);
    const first = callTool(field.url, 'large');
    await begun(1);
    const second = callTool(field.url, 'large');
    const refused = await Promise.race([first, second]);
    expect(refused.response.error.message).toContain(NO_ROOM);
    end();
    end();
    const whole = (await Promise.all([first, second])).map(lengthOf);
    expect(whole.filter((length) => length === PART.length)).toHaveLength(1);
    const third = callTool(field.url, 'large');
    await begun(1);
    end();
    expect(lengthOf(await third)).toBe(PART.length);
  });
});
