/** A server that takes each GET that resumes a stream, and ends the response at once. */
import { expect, test } from 'vitest';
import { ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import { eventStream, legacyServer } from '../../fixtures/servers/scripted-server.ts';
import { call, open, upstreamOf } from '../../fixtures/servers/upstream-testbed.ts';

const RETRY_MS = 3_000;

/**
 * A call whose stream breaks behind an event, at a server that then ends each response.
 * @param said what it says before; nothing if it is empty
 */
async function broken(said: string) {
  let resumed = 0;
  const server = await legacyServer(
    (_received, response) => {
      const stream = eventStream(response);
      stream.raw(`retry: ${RETRY_MS}\nid: e1\ndata:\n\n`);
      stream.end();
    },
    {
      onGet: ({ headers }, response) => {
        if (headers['last-event-id'] === undefined) return void response.writeHead(405).end();
        resumed += 1;
        const stream = eventStream(response);
        if (said !== '') stream.raw(said);
        stream.end();
      },
    },
  );
  const clock = new ManualClock();
  const upstream = upstreamOf(server, { transport: 'streamable-http' }, clock);
  const { heard } = call(await open(upstream));
  await heard.until('interrupted');
  const isLost = () => heard.events.some(([name]) => name === 'lost');
  const ends = () => heard.events.filter(([name]) => name === 'interrupted').length;
  /** Lets the gateway resume the stream so many times at most. */
  const resume = async (times: number) => {
    for (let time = 1; time <= times && !isLost(); time += 1) {
      const before = ends();
      clock.advance(RETRY_MS);
      await turnsUntil(() => isLost() || ends() > before);
    }
  };
  return { heard, isLost, resume, resumed: () => resumed };
}

// Rule resumption-4.
test('without an event has lost the call after ten times and 30 seconds', async () => {
  const { heard, resume, isLost, resumed } = await broken('');
  await resume(10);
  expect(isLost()).toBe(false);
  await resume(2);
  expect(heard.events.at(-1)).toEqual(['lost', 'upstream_protocol_error']);
  expect(resumed()).toBeLessThanOrEqual(12);
});

// Rules resumption-3, resumption-4.
test.each([
  ['an event', 'id: e1\ndata:\n\n'],
  ['the time to wait', `retry: ${RETRY_MS}\n\n`],
])('after %s is asked for as long as the call may take', async (_said, said) => {
  const { isLost, resume, resumed } = await broken(said);
  await resume(25);
  expect(isLost()).toBe(false);
  expect(resumed()).toBe(25);
});
