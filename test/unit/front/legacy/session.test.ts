/** The switchboard of a legacy session: on which response each message of the server goes, and what is kept for later. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { readClientMessage } from '../../../../src/front/legacy/envelope.ts';
import type { Accepts, StreamResponse } from '../../../../src/front/legacy/event-stream.ts';
import { LegacySession } from '../../../../src/front/legacy/session.ts';
import { UpstreamFailure } from '../../../../src/model/upstream-failure.ts';
import { readMessage } from '../../../../src/protocol/json-rpc.ts';
import type { JsonValue } from '../../../../src/protocol/json.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

/** A response that is kept, with a client that can be behind, or leave. */
class Response implements StreamResponse {
  status: number | null = null;
  type: string | undefined;
  text = '';
  isEnded = false;
  isOpen = true;
  isSlow = false;
  #listener: { caughtUp(): void; closed(): void } | null = null;

  head(status: number, headers: Readonly<Record<string, string>>): void {
    this.status = status;
    this.type = headers['content-type'];
  }

  write(text: string): boolean {
    this.text += text;
    return !this.isSlow;
  }

  end(text = ''): void {
    this.text += text;
    this.isEnded = true;
  }

  watch(listener: { caughtUp(): void; closed(): void }): void {
    this.#listener = listener;
  }

  catchUp(): void {
    this.isSlow = false;
    this.#listener?.caughtUp();
  }

  leave(): void {
    this.isOpen = false;
    this.#listener?.closed();
  }

  /** The messages on it so far. */
  get messages(): unknown[] {
    if (this.type === 'application/json') return [JSON.parse(this.text)];
    return this.events.flatMap(({ data }) => (data === '' ? [] : JSON.parse(data)));
  }

  get events(): { id: string; data: string }[] {
    const blocks = this.text.split('\n\n').filter((block) => /^id:/m.test(block));
    return blocks.map((block) => ({
      id: /^id: (.*)$/m.exec(block)?.[1] ?? '',
      data: /^data: (.*)$/m.exec(block)?.[1] ?? '',
    }));
  }
}

/** A session of the revision 2025-06-18, whose process is the test. */
function open(revision = '2025-06-18') {
  const clock = new ManualClock();
  const sent: unknown[] = [];
  const lost: string[] = [];
  const uses: string[] = [];
  let isPaused = false;
  const session = new LegacySession({
    ...{ clock, learnsRoots: true },
    held: { hold: () => true, release: () => {} },
    onUse: (use) => uses.push(use),
    onEnd: () => {},
    onLost: (what) => lost.push(what),
  });
  session.connect({
    send: async (line) => void sent.push(JSON.parse(line)),
    renew: () => {},
    pause: () => (isPaused = true),
    resume: () => (isPaused = false),
    end: async () => {},
  });
  session.agreed(revision);
  return {
    ...{ session, clock, sent, lost, uses },
    get isPaused() {
      return isPaused;
    },
    /** Sends a request of the client. */
    ask: (id: string | number, method: string, params = {}, accepts: Accepts = 'both') => {
      const response = new Response();
      const message = { jsonrpc: '2.0', id, method, params };
      const read = readClientMessage(message as JsonValue)!;
      session.request([{ line: JSON.stringify(message), message: read }], response, accepts, {});
      return response;
    },
    tell: (message: object) => {
      const all = { jsonrpc: '2.0', ...message };
      const read = readClientMessage(all as JsonValue)!;
      return session.send(JSON.stringify(all), read, {});
    },
    listen: () => {
      const response = new Response();
      return { response, isTaken: session.listen(response) };
    },
    resume: (id: string) => {
      const response = new Response();
      return { response, became: session.resume(response, id) };
    },
    /** Has the server say something. */
    say: (message: object) => {
      const all = { jsonrpc: '2.0', ...message };
      session.messages([readMessage(all)], JSON.stringify(all));
    },
  };
}

const TOKEN = { _meta: { progressToken: 1 } };
const QUESTION = { id: 'q', method: 'elicitation/create', params: { message: 'Who?' } };
const CHANGED = { method: 'notifications/tools/list_changed' };
const result = (id: string | number) => ({ id, result: {} });
const messageOf = (message: object) => ({ jsonrpc: '2.0', ...message });

describe('in front of a server over stdio', () => {
  // Rule face-1: The response to a POST is JSON if it is the only message and comes within 5 s, otherwise an event
  // stream.
  test('a response alone is one JSON object, byte for byte as the server wrote it', () => {
    const field = open();
    const number = field.ask(1, 'tools/list');
    const text = field.ask('1', 'tools/list');
    const line = '{"jsonrpc":"2.0", "id":"1","result":{"n":1.50, "\\u00e9":"\\/"}}';
    field.session.messages([readMessage(JSON.parse(line))], line);
    expect([number.status, text.text]).toEqual([null, line]);
    field.say(result(1));
    expect(number.messages).toEqual([messageOf(result(1))]);
  });

  // Rule face-1.
  test('a response that takes long is an event stream, with comments while nothing comes', () => {
    const field = open();
    const response = field.ask(1, 'tools/call');
    field.clock.advance(5_000);
    expect([response.status, response.type]).toEqual([200, 'text/event-stream']);
    field.clock.advance(15_000);
    expect(response.text).toBe(': keep-alive\n\n');
    field.say(result(1));
    expect([response.messages, response.isEnded]).toEqual([[messageOf(result(1))], true]);
  });

  // Rule face-1.
  test.each([
    ['json', 'application/json'],
    ['stream', 'text/event-stream'],
  ] as const)('a client that accepts %s only gets that', (accepts, type) => {
    const field = open();
    const response = field.ask(1, 'tools/call', { _meta: { progressToken: 1 } }, accepts);
    if (accepts === 'json') {
      field.say({ method: 'notifications/progress', params: { progressToken: 1, progress: 1 } });
    }
    field.say(result(1));
    expect([response.type, response.messages]).toEqual([type, [messageOf(result(1))]]);
  });

  // Rule face-2: A question goes on its call, else on another POST, else on the GET. After 30 s without any of them
  // the server gets an error.
  test('a question goes on the newest call, else on another request, else on the GET', () => {
    const field = open();
    const { response: standalone } = field.listen();
    field.say(QUESTION);
    const list = field.ask(1, 'tools/list');
    field.say(QUESTION);
    const call = field.ask(2, 'tools/call');
    const later = field.ask(3, 'tools/call');
    field.ask(4, 'tools/list');
    field.say(QUESTION);
    const question = [messageOf(QUESTION)];
    expect([standalone.messages, list.messages, later.messages]).toEqual(Array(3).fill(question));
    expect(call.text).toBe('');
  });

  // Rule face-2.
  test('a question that no stream is open for waits for one', () => {
    const field = open();
    field.say(QUESTION);
    field.clock.advance(29_000);
    expect(field.listen().response.messages).toEqual([messageOf(QUESTION)]);
    field.clock.advance(30_000);
    expect(field.sent).toEqual([]);
  });

  // Rule face-2.
  test('a question that no client can be shown gets an error after 30 s', () => {
    const field = open();
    field.say(QUESTION);
    field.clock.advance(30_000);
    expect(field.sent).toMatchObject([{ id: 'q', error: { code: -32603 } }]);
    expect(field.listen().response.messages).toEqual([]);
  });

  // Rule face-3: Progress goes on its request. Other notifications go on the GET, else on the newest POST, else they
  // wait for the next stream.
  test('progress goes on the request that has its token', () => {
    const field = open();
    const first = field.ask(1, 'tools/call', { _meta: { progressToken: 'a' } });
    const second = field.ask(2, 'tools/call', { _meta: { progressToken: 'b' } });
    const progress = {
      method: 'notifications/progress',
      params: { progressToken: 'a', progress: 1 },
    };
    field.say(progress);
    expect([first.messages, second.text]).toEqual([[messageOf(progress)], '']);
  });

  // Rule face-3.
  test('other notifications go on the GET, else on a POST, else they are kept', () => {
    const field = open();
    field.say(CHANGED);
    const call = field.ask(1, 'tools/call');
    expect(call.messages).toEqual([messageOf(CHANGED)]);
    const { response } = field.listen();
    field.say(CHANGED);
    expect(response.messages).toEqual([messageOf(CHANGED)]);
    expect(call.messages).toHaveLength(1);
  });

  // Rule face-4: A later GET replaces the earlier one, or gets 409 within 2 s.
  test('a later GET replaces the earlier one', () => {
    const field = open();
    const first = field.listen();
    const hasty = field.listen();
    field.clock.advance(2_000);
    const second = field.listen();
    expect([hasty.isTaken, second.isTaken, first.response.isEnded]).toEqual([false, true, true]);
    field.say(CHANGED);
    expect(second.response.messages).toHaveLength(1);
  });

  // Rule face-4.
  test('a stream that was replaced does not come back while the other one is open', () => {
    const field = open();
    const first = field.listen();
    field.say(CHANGED);
    field.clock.advance(2_000);
    const second = field.listen();
    const { id } = first.response.events[0]!;
    expect(field.resume(id).became).toBe('over');
    expect(second.response.isEnded).toBe(false);
    second.response.leave();
    const third = field.resume(id);
    field.say(CHANGED);
    expect(third.response.messages).toEqual([messageOf(CHANGED)]);
    expect(third.response.isEnded).toBe(false);
  });

  // Rule face-5: A client that disconnects cancels nothing. A GET with `Last-Event-ID` resumes its stream, or gets
  // 204 if nothing is missing.
  test('a client whose connection broke resumes the response to a call', () => {
    const field = open('2025-11-25');
    const call = field.ask(1, 'tools/call', {}, 'stream');
    field.say(CHANGED);
    call.leave();
    field.say(result(1));
    const { response } = field.resume(call.events[0]!.id);
    expect(call.events[0]!.data).toBe('');
    expect(response.messages).toEqual([messageOf(CHANGED), messageOf(result(1))]);
    expect(response.isEnded).toBe(true);
    const again = field.resume(response.events[0]!.id);
    expect(again.response.messages).toEqual([messageOf(result(1))]);
  });

  // Rule face-5.
  test('a client that comes back to a stream of which it has all is told that it is over', () => {
    const field = open();
    const call = field.ask(1, 'tools/call', {}, 'stream');
    const error = { id: 1, error: { code: -32602, message: 'no' } };
    field.say(error);
    expect(call.messages).toEqual([messageOf(error)]);
    expect(field.resume(call.events[0]!.id).became).toBe('over');
  });

  // Rule face-5.
  test('a stream of an earlier revision begins with no event', () => {
    const field = open('2025-06-18');
    expect(field.ask(1, 'tools/call', {}, 'stream').text).toBe('');
  });

  // Rule face-5.
  test('an event that is not of this session is not resumed from', () => {
    const field = open();
    expect(['7.1', 'x', '1.1.1', ''].map((id) => field.resume(id).became)).toEqual(
      Array(4).fill('unknown'),
    );
  });

  // Rule face-6: A session keeps 1 MiB of messages, or one larger message. If unread ones exceed that, the server is
  // not read for up to 30 s.
  test('when too much is kept, what was sent goes first, and a lost response becomes an error', () => {
    const field = open();
    const call = field.ask(1, 'tools/call', {}, 'stream');
    field.say(CHANGED);
    field.say(result(1));
    const large = field.ask(2, 'tools/call', {}, 'stream');
    field.say({ id: 2, result: { text: 'x'.repeat(1_100_000) } });
    const { response } = field.resume(call.events[0]!.id);
    expect(response.messages).toMatchObject([{ id: 1, error: { code: -32603 } }]);
    expect(large.isEnded).toBe(true);
  });

  // Rule face-6.
  test('a client that reads nothing holds up its own server, and loses notifications only', () => {
    const field = open();
    const call = field.ask(1, 'tools/call', {}, 'stream');
    call.isSlow = true;
    field.say(CHANGED);
    const text = 'x'.repeat(600_000);
    field.say({ method: 'notifications/message', params: { data: text } });
    field.say({ id: 'one', method: 'sampling/createMessage', params: { text } });
    field.say({ id: 'two', method: 'sampling/createMessage', params: { text } });
    expect(field.isPaused).toBe(true);
    call.catchUp();
    expect(field.isPaused).toBe(false);
    field.say(result(1));
    const ids = call.messages.map((message) => (message as { id?: unknown }).id);
    expect(ids).toEqual([undefined, 'one', 'two', 1]);
  });

  // Rule face-6.
  test('responses that their client has left hold up its server for 30 s only', () => {
    const field = open();
    const text = 'x'.repeat(600_000);
    const calls = [1, 2].map((id) => field.ask(id, 'tools/call', {}, 'stream'));
    field.say({ id: 'q', method: 'ping' });
    for (const call of calls) call.leave();
    for (const id of [1, 2]) field.say({ id, result: { text } });
    expect(field.isPaused).toBe(true);
    field.clock.advance(30_000);
    expect(field.isPaused).toBe(false);
    const { response } = field.resume('1.0');
    expect(response.messages).toMatchObject([{ id: 1, error: { code: -32603 } }]);
    expect(field.resume('2.0').response.text).toContain(text);
  });

  // Rule face-6.
  test.each([
    [
      'has left its call',
      (field: ReturnType<typeof open>) => field.ask(1, 'tools/call', TOKEN, 'stream').leave(),
    ],
    [
      'reads nothing of its call',
      (field: ReturnType<typeof open>) =>
        (field.ask(1, 'tools/call', TOKEN, 'stream').isSlow = true),
    ],
    ['has opened no stream', () => {}],
  ])('of what a client that %s can get no more, nothing is kept', (_what, begin) => {
    setFlagsFromString('--expose-gc');
    const collectGarbage = runInNewContext('gc') as () => void;
    const field = open();
    begin(field);
    const say = (count: number) => {
      for (let progress = 0; progress < count; progress += 1) {
        const params = { progressToken: 1, progress, message: `${progress}`.repeat(100_000) };
        field.say({ method: 'notifications/progress', params });
      }
    };
    say(10);
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    say(300);
    collectGarbage();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(10 * 1024 * 1024);
  });

  test('the end of the process ends every open request', () => {
    const field = open();
    const call = field.ask(1, 'tools/call');
    const { response } = field.listen();
    const problem = 'the process ended with exit code 7; it wrote to standard error: no memory';
    field.session.ended(
      new UpstreamFailure('upstream_unavailable', problem, { mayHaveActed: true }),
    );
    expect(call.messages).toMatchObject([{ id: 1, error: { code: -32603 } }]);
    expect(call.text).toContain(problem);
    expect([response.isEnded, field.session.isOver]).toEqual([true, true]);
  });

  // Rule face-8: A cancellation passes to the server. A request without a response ends 5 s later.
  test('a cancelled request that gets no response ends after 5 s', async () => {
    const field = open();
    const call = field.ask(1, 'tools/call');
    await field.tell({ method: 'notifications/cancelled', params: { requestId: 1 } });
    expect(field.sent.at(-1)).toMatchObject({ method: 'notifications/cancelled' });
    field.clock.advance(5_000);
    expect(call.messages).toMatchObject([{ id: 1, error: { code: -32603 } }]);
    field.say(result(1));
    expect(field.lost).toEqual(['a response to no open request']);
  });

  // Rule face-8.
  test('a cancelled request gets no response at the end of its session', async () => {
    const field = open();
    const [cancelled, other] = [field.ask(1, 'tools/call'), field.ask(2, 'tools/call')];
    field.clock.advance(5_000);
    await field.tell({ method: 'notifications/cancelled', params: { requestId: 1 } });
    field.session.end('The session is over');
    expect([cancelled.messages, cancelled.isEnded]).toEqual([[], true]);
    expect(other.messages).toMatchObject([{ id: 2, error: { message: 'The session is over' } }]);
  });

  // Rule face-9: A batch of 2025-03-26 has one stream, which ends with its last response. Under other revisions it
  // gets 400.
  test('the responses to a batch come on one stream', () => {
    const field = open('2025-03-26');
    const response = new Response();
    const lines = [1, 2].map((id) => {
      const message = { jsonrpc: '2.0', id, method: 'tools/list' };
      return { line: JSON.stringify(message), message: readClientMessage(message)! };
    });
    field.session.request(lines, response, 'both', {});
    field.say(result(2));
    expect(response.isEnded).toBe(false);
    field.say(result(1));
    expect(response.messages).toEqual([messageOf(result(2)), messageOf(result(1))]);
    expect(response.isEnded).toBe(true);
  });

  test('the use of a session follows its open responses', () => {
    const field = open();
    const { response } = field.listen();
    const call = field.ask(1, 'tools/call');
    field.say(result(1));
    response.leave();
    expect(call.isEnded).toBe(true);
    expect(field.uses).toEqual(['stream', 'request', 'stream', 'none']);
  });
});
