/**
 * What a relay means, whichever way the messages of two replicas go and whatever form they have: real
 * processes, told apart by nothing but what clients and the server see.
 */
import { describe, expect, test } from 'vitest';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  replicas,
  slowGreeter,
  stateOf,
  text,
  whileRetryable,
} from '../../fixtures/gateways/replica-testbed.ts';
import { askName, type LegacyServerOptions } from '../../fixtures/servers/legacy-server.ts';
import { callTool, modernBody, modernHeaders } from '../../fixtures/clients/modern-client.ts';
import { RELAY_WAYS } from '../../fixtures/relay-ways.ts';

/** How long an operator is told that a retry in front of a frozen owner takes at most, in ms. */
const FROZEN_ANSWER_MS = 5_000;
/** The same where its lease has to end first. */
const TAKEOVER_ANSWER_MS = 8_000;

for (const { way, tags, options, bursts } of RELAY_WAYS)
  describe(
    `a retry that is relayed ${way}`,
    // Three processes may take long to start on a busy machine.
    { tags, timeout: 90_000 },
    () => {
      // Rule retries-1 (MRTR, "Client Requirements" 3): A client can retry at once. The retry has an id and a
      // progress token of its own.
      // Rules progress-2, relay-1, relay-13.
      test('reaches the owner, and its progress comes before its response', async () => {
        const tools: LegacyServerOptions['tools'] = {
          work: async (call) => {
            const name = await askName(call);
            const progressToken = call.extra._meta?.progressToken ?? 0;
            for (const progress of [1, 2, 3]) {
              await call.extra.sendNotification({
                method: 'notifications/progress',
                params: { progressToken, progress, message: 'working' },
              });
            }
            return `Hello ${name}`;
          },
        };
        const [one, other] = await replicas(await legacyServer({ tools }), 2, await options());
        const meta = { progressToken: 'mine' };
        const asked = await callTool(one.url, 'work', {}, { meta });
        const done = await callTool(other.url, 'work', answersOf(asked, 'Ada'), { meta });
        expect(text(done)).toBe('Hello Ada');
        expect(done.notifications).toEqual(
          [1, 2, 3].map((progress) => ({
            jsonrpc: '2.0',
            method: 'notifications/progress',
            params: { progressToken: 'mine', progress, message: 'working' },
          })),
        );
        expect(await other.recoveries()).toEqual(['relay']);
      });

      // Rule relay-1.
      test('has any text that a request can have', async () => {
        const { tools } = greeter();
        const [one, other] = await replicas(await legacyServer({ tools }), 2, await options());
        // Nearly as long as a body may be, and longer in a message.
        const args = { arguments: { note: '"'.repeat(1_900_000) } };
        const asked = await callTool(one.url, 'greet', args);
        const done = await callTool(other.url, 'greet', { ...args, ...answersOf(asked, 'Ada') });
        expect(text(done)).toBe('Hello Ada');
        expect(await other.recoveries()).toEqual(['relay']);
      });

      // Rule relay-1: A retry at another replica is served by the owner, with its progress. A client that leaves
      // cancels the call there.
      // Rule relay-14.
      test('is refused for good if it becomes longer than its owner reads, and its call goes on', async () => {
        const { tools } = greeter();
        const { config, ...others } = await options();
        const limits = { maxBody: '200KiB' };
        const [one, other] = await replicas(await legacyServer({ tools }), 2, {
          ...others,
          config: { ...config, limits },
        });
        const asked = await callTool(one.url, 'greet');
        const params = { name: 'greet', arguments: {}, ...answersOf(asked, 'Ada') };
        // Numbers that are written out between replicas, with all their digits.
        const numbers = `[${Array.from({ length: 30_000 }, () => '1e20').join()}]`;
        const body = modernBody('tools/call', params, { meta: { 'example.com/more': 'numbers' } });
        const response = await fetch(other.url, {
          method: 'POST',
          headers: modernHeaders('tools/call', params),
          body: JSON.stringify(body).replace('"numbers"', numbers),
        });
        const { error } = (await response.json()) as { error: { data: object } };
        expect(error.data).toEqual({
          reason: 'request_too_large',
          mayHaveActed: 'yes',
          help: 'mrtr-gateway/docs/operate/errors.md#request_too_large',
        });
        expect(text(await callTool(other.url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
      });

      test('may land elsewhere in each round', { tags: ['long'] }, async () => {
        const tools: LegacyServerOptions['tools'] = {
          two: async (call) => `${await askName(call, 'First?')} ${await askName(call, 'Second?')}`,
        };
        const [one, other, third] = await replicas(
          await legacyServer({ tools }),
          3,
          await options(),
        );
        const first = await callTool(one.url, 'two');
        const second = await callTool(other.url, 'two', answersOf(first, 'a'));
        const done = await callTool(third.url, 'two', answersOf(second, 'b'));
        expect(text(done)).toBe('a b');
        expect([...(await other.recoveries()), ...(await third.recoveries())]).toEqual([
          'relay',
          'relay',
        ]);
      });

      // Rule relay-7: The owner repeats every check of the other replica.
      test('is refused as its owner would: with other answers, or for another tool', async () => {
        const { tools, effects } = greeter();
        const legacy = await legacyServer({ tools: { ...tools, other: async () => 'other' } });
        const [one, other] = await replicas(legacy, 2, await options());
        const asked = await callTool(one.url, 'greet');
        const answers = answersOf(asked, 'Ada');
        const wrongTool = await callTool(other.url, 'other', answers);
        expect(wrongTool.response.error.code).toBe(-32602);
        await callTool(other.url, 'greet', answers);
        const repeated = await callTool(other.url, 'greet', answers);
        expect(text(repeated), 'the identical retry gets the identical outcome').toBe('Hello Ada');
        const different = await callTool(other.url, 'greet', answersOf(asked, 'Eve'));
        expect(reasonOf(different)).toBe('invalid_request_state');
        expect(effects).toEqual(['Ada']);
      });

      // Rule relay-1.
      test('and whose client leaves has its call cancelled by the owner', async () => {
        const { tools } = slowGreeter();
        const legacy = await legacyServer({ tools });
        const [one, other] = await replicas(legacy, 2, await options());
        const asked = await callTool(one.url, 'greet');
        const leaving = new AbortController();
        const retried = callTool(other.url, 'greet', answersOf(asked, 'Ada'), {
          signal: leaving.signal,
        }).catch(() => 'left');
        await legacy.saw('response');
        leaving.abort();
        expect(await retried).toBe('left');
        await legacy.saw('notifications/cancelled');
        expect((await one.saw('call.ended'))[0]?.['end']).toBe('cancelled');
      });

      // Rule relay-9 (streamable-http, "Cancellation"): If the other replica is gone, the owner cancels the call: 1 s
      // after its connection broke, or after 6 s of silence through Redis.
      test(
        'and whose replica is killed has its call cancelled by the owner',
        { tags: ['long'] },
        async () => {
          const { tools } = slowGreeter();
          const legacy = await legacyServer({ tools });
          const [one, other] = await replicas(legacy, 2, await options());
          const asked = await callTool(one.url, 'greet');
          const lost = callTool(other.url, 'greet', answersOf(asked, 'Ada')).catch(() => 'lost');
          await legacy.saw('response');
          await other.kill();
          expect(await lost).toBe('lost');
          await legacy.saw('notifications/cancelled');
          expect((await one.saw('call.ended'))[0]?.['end']).toBe('cancelled');
        },
      );

      // Rule relay-9.
      test(
        'and whose replica is frozen has its call cancelled when more and more waits for it',
        { tags: ['long'] },
        async () => {
          const data = 'x'.repeat(100_000);
          const tools: LegacyServerOptions['tools'] = {
            flood: async (call) => {
              const { extra } = call;
              const name = await askName(call);
              while (!extra.signal.aborted) {
                await extra.sendNotification({
                  method: 'notifications/message',
                  params: { level: 'info', data },
                });
                await new Promise(setImmediate);
              }
              return name;
            },
          };
          const legacy = await legacyServer({ tools });
          const [one, other] = await replicas(legacy, 2, await options());
          const meta = { 'io.modelcontextprotocol/logLevel': 'debug' };
          const asked = await callTool(one.url, 'flood', {}, { meta });
          const answers = answersOf(asked, 'Ada');
          const lost = callTool(other.url, 'flood', answers, { meta }).catch(() => 'lost');
          await legacy.saw('response');
          other.freeze();
          await legacy.saw('notifications/cancelled');
          expect((await one.saw('call.ended'))[0]?.['end']).toBe('cancelled');
          await other.kill();
          expect(await lost).toBe('lost');
        },
      );

      // Rule relay-3: If an owner is silent for 3 s and not known to be dead, the retry gets
      // `coordination_unavailable` and `data.retryable`, within 5 s, or 12 s for a home.
      test('is not lost when the owner stalls for a moment', { tags: ['long'] }, async () => {
        const { effects, tools } = greeter();
        const [one, other] = await replicas(await legacyServer({ tools }), 2, await options());
        const asked = await callTool(one.url, 'greet');
        one.freeze();
        const retried = whileRetryable(() => callTool(other.url, 'greet', answersOf(asked, 'Ada')));
        setTimeout(() => one.thaw(), 2_500);
        expect(text(await retried)).toBe('Hello Ada');
        expect(effects).toEqual(['Ada']);
      });

      // Rule relay-3.
      test(
        'is not lost when the owner stalls while it is at work for it',
        { tags: ['long'] },
        async () => {
          const { effects, tools, finish } = slowGreeter();
          const legacy = await legacyServer({ tools });
          const [one, other] = await replicas(legacy, 2, await options());
          const asked = await callTool(one.url, 'greet');
          const answers = answersOf(asked, 'Ada');
          const retried = whileRetryable(() => callTool(other.url, 'greet', answers));
          await legacy.saw('response');
          one.freeze();
          setTimeout(() => {
            one.thaw();
            finish();
          }, 2_500);
          expect(text(await retried)).toBe('Hello Ada');
          expect(legacy.methods()).not.toContain('notifications/cancelled');
          expect(effects).toEqual(['Ada']);
        },
      );

      // Rule relay-2: The owner carries out a retry that was sent within the last 2 s, or whose replica confirms
      // within 2 s that its client waits.
      test('in front of a frozen owner must be repeated, and nothing of it is carried out when the owner runs again', async () => {
        const { effects, tools } = greeter();
        const [one, other] = await replicas(await legacyServer({ tools }), 2, await options());
        const asked = await callTool(one.url, 'greet');
        one.freeze();
        const began = performance.now();
        const refused = await callTool(other.url, 'greet', answersOf(asked, 'Eve'));
        expect(reasonOf(refused)).toBe('coordination_unavailable');
        expect(refused.response.error.data.retryable).toBe(true);
        expect(performance.now() - began).toBeLessThan(FROZEN_ANSWER_MS);
        one.thaw();
        // By then it has read all that had come before; no answer was taken, so others still count.
        const done = whileRetryable(() => callTool(other.url, 'greet', answersOf(asked, 'Ada')));
        expect(text(await done)).toBe('Hello Ada');
        expect(effects).toEqual(['Ada']);
      });

      // Rule relay-2.
      test(
        'whose client was told that the call is lost is not carried out when the owner wakes up',
        { tags: ['long'] },
        async () => {
          const { effects, tools } = greeter();
          const [one, other] = await replicas(await legacyServer({ tools }), 2, await options());
          const asked = await callTool(one.url, 'greet');
          one.freeze();
          const last = await whileRetryable(() =>
            callTool(other.url, 'greet', answersOf(asked, 'Eve')),
          );
          expect(reasonOf(last)).toBe('call_lost');
          one.thaw();
          // It has read every letter when it answers one that came after them.
          const done = await whileRetryable(() =>
            callTool(other.url, 'greet', answersOf(asked, 'Ada')),
          );
          expect(text(done)).toBe('Hello Ada');
          expect(effects).toEqual(['Ada']);
        },
      );

      // Rule relay-3.
      test(
        'is answered when the lease of a frozen owner has ended, if the server lets nobody take the stream from it',
        { tags: ['long'] },
        async () => {
          const { effects, tools } = greeter();
          const legacy = await legacyServer({ tools, keepsEvents: 'for one reader' });
          const [one, other] = await replicas(legacy, 2, await options());
          const asked = await callTool(one.url, 'greet');
          one.freeze();
          const began = performance.now();
          const refused = await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
          expect(reasonOf(refused)).toBe('coordination_unavailable');
          expect(performance.now() - began).toBeLessThan(TAKEOVER_ANSWER_MS);
          one.thaw();
          const done = whileRetryable(() => callTool(other.url, 'greet', answersOf(asked, 'Ada')));
          expect(text(await done)).toBe('Hello Ada');
          expect(effects).toEqual(['Ada']);
        },
      );

      // Rule relay-6: A replica that stops tells the clients of its relayed retries to retry, and the call goes on.
      test('by a replica that stops gets state alone, and goes on elsewhere', async () => {
        const { effects, tools, finish } = slowGreeter();
        const legacy = await legacyServer({ tools });
        const [one, other] = await replicas(legacy, 2, await options());
        const asked = await callTool(one.url, 'greet');
        const retried = callTool(other.url, 'greet', answersOf(asked, 'Ada'));
        await legacy.saw('response');
        expect(await other.drain()).toBe(0);
        const told = await retried;
        expect(told.response.result).toMatchObject({
          resultType: 'input_required',
          inputRequests: {},
        });
        const done = callTool(one.url, 'greet', { requestState: stateOf(told) });
        finish();
        expect(text(await done)).toBe('Hello Ada');
        expect(legacy.methods()).not.toContain('notifications/cancelled');
        expect(effects).toEqual(['Ada']);
      });

      // Rule relay-6.
      test(
        'by a replica that stops while the owner is frozen is told so, and nothing is lost',
        { tags: ['long'] },
        async () => {
          const { effects, tools } = greeter();
          const legacy = await legacyServer({ tools });
          // Time enough for the retry to come in.
          const config = { drain: { delay: '1s', timeout: '100ms' } };
          const own = await options();
          const [one, other] = await replicas(legacy, 2, {
            ...own,
            config: { ...own.config, ...config },
          });
          const asked = await callTool(one.url, 'greet');
          one.freeze();
          const retried = callTool(other.url, 'greet', answersOf(asked, 'Ada'));
          const gone = other.drain();
          const told = await retried;
          expect([reasonOf(told), told.response.error.data.retryable]).toEqual(['draining', true]);
          expect(await gone).toBe(0);
          one.thaw();
          expect(text(await callTool(one.url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
          expect(effects).toEqual(['Ada']);
        },
      );

      test.each(bursts)(
        'arrives with $count results of $length characters at once',
        { tags: ['long'], timeout: 180_000 },
        async ({ count, length }) => {
          const released = Promise.withResolvers<void>();
          const effects: string[] = [];
          const tools: LegacyServerOptions['tools'] = {
            burst: async (call) => {
              const name = await askName(call);
              effects.push(name);
              if (effects.length === count) released.resolve();
              await released.promise;
              return `${name}:${'x'.repeat(length)}`;
            },
          };
          const [one, other] = await replicas(await legacyServer({ tools }), 2, await options());
          const names = Array.from({ length: count }, (_, index) => `caller-${index}`);
          const asked = await Promise.all(names.map(() => callTool(one.url, 'burst')));
          const done = await Promise.all(
            asked.map((each, index) =>
              callTool(other.url, 'burst', answersOf(each, names[index] ?? '')),
            ),
          );
          expect(done.map(reasonOf).filter((reason) => reason !== undefined)).toEqual([]);
          const arrived = done.map((each) => String(text(each)));
          expect(arrived.map((words) => words.split(':')[0])).toEqual(names);
          expect(new Set(arrived.map((words) => words.length - words.indexOf(':') - 1))).toEqual(
            new Set([length]),
          );
          expect(effects.toSorted()).toEqual(names.toSorted());
          expect(new Set(await other.recoveries())).toEqual(new Set(['relay']));
        },
      );
    },
  );
