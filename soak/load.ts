/** Users of the official client, who call, answer, leave and listen, each for a while. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { setTimeout as sleep } from 'node:timers/promises';

/** What became of calls: `ok`, `left`, or the reason of a failure. */
export class Outcomes {
  readonly counts = new Map<string, number>();
  /** Examples of what must not happen. */
  readonly faults: string[] = [];
  #cutUntilMs = 0;

  get total(): number {
    return [...this.counts.values()].reduce((sum, count) => sum + count, 0);
  }

  add(outcome: string): void {
    this.counts.set(outcome, (this.counts.get(outcome) ?? 0) + 1);
  }

  /** Connections can break from now on, since a process was killed. */
  mayBeCut(forMs: number): void {
    this.#cutUntilMs = performance.now() + forMs;
  }

  failed(what: string, error: unknown, startedAtMs: number): void {
    const reason = reasonOf(error);
    if (reason !== null && EXPECTED.has(reason)) return this.add(reason);
    if (reason === null && startedAtMs < this.#cutUntilMs) return this.add('cut');
    this.add('fault');
    const said = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    if (this.faults.length < MAX_FAULTS) this.faults.push(`${what}: ${reason ?? said}`);
  }
}

const MAX_FAULTS = 50;
/** What the restart or the end of a replica can mean for a call, and is told. */
const EXPECTED = new Set([
  'call_lost',
  'coordination_unavailable',
  'draining',
  'stopping',
  'upstream_session_lost',
]);

function reasonOf(error: unknown): string | null {
  if (typeof error !== 'object' || error === null || !('data' in error)) return null;
  const { data } = error as { data: unknown };
  if (typeof data !== 'object' || data === null || !('reason' in data)) return null;
  return String(data.reason);
}

type Act = (user: User, id: string) => Promise<boolean>;

type WeightedAct = readonly [name: string, times: number, act: Act];

/** What users do, and how often of 100 times. An act resolves to whether the reply is the right one. */
export const ACTS: readonly WeightedAct[] = [
  ['plain', 45, async (user, id) => (await user.call('echo', { message: id })).includes(id)],
  ['sum', 10, async (user) => (await user.call('get-sum', { a: 2, b: 3 })).includes('5')],
  ['list', 4, async ({ client }) => (await client.listTools()).tools.length > 0],
  ['answered', 14, async (user, id) => (await user.ask(id, 0)).includes(id)],
  ['answered later', 6, async (user, id) => (await user.ask(id, 3_000)).includes(id)],
  [
    'sampled',
    4,
    async (user) => (await user.call('trigger-sampling-request', { prompt: 'hi' })).includes('Hi'),
  ],
  ['abandoned', 6, (user, id) => user.leave(300, (signal) => user.ask(id, 60_000, signal))],
  [
    'aborted',
    5,
    (user) => user.leave(250, (signal) => user.call(LONG, { duration: 5, steps: 20 }, { signal })),
  ],
  [
    'long',
    3,
    async (user) => (await user.call(LONG, { duration: 1, steps: 4 })).includes('completed'),
  ],
  ['listened', 3, (user) => user.listen(1_500)],
];
/** The calls of a session over stdio take turns, so one that is abandoned keeps the others waiting for `parking.ttl`. */
export const STDIO_ACTS = ACTS.filter(([name]) => name !== 'abandoned');
const LONG = 'trigger-long-running-operation';

class User {
  readonly client: Client;
  #answer: { readonly name: string; readonly afterMs: number; readonly signal?: AbortSignal } = {
    name: '',
    afterMs: 0,
  };

  constructor() {
    this.client = new Client(
      { name: 'soak', version: '1.0.0' },
      {
        versionNegotiation: { mode: { pin: '2026-07-28' } },
        capabilities: { elicitation: { form: {} }, sampling: {} },
      },
    );
    this.client.setRequestHandler('elicitation/create', async () => {
      const { name, afterMs, signal } = this.#answer;
      await sleep(afterMs, undefined, signal && { signal });
      return { action: 'accept', content: { name } };
    });
    this.client.setRequestHandler('sampling/createMessage', async () => ({
      role: 'assistant',
      model: 'none',
      content: { type: 'text', text: 'Hi' },
    }));
  }

  /** Calls a tool. @returns the text of its result */
  async call(name: string, args: object, options: { signal?: AbortSignal } = {}): Promise<string> {
    const params = { name, arguments: { ...args } };
    const { content, isError, _meta } = await this.client.callTool(params, options);
    const text = content.map((part) => ('text' in part ? part.text : '')).join('\n');
    const reason = _meta?.['mrtr-gateway/reason'];
    if (isError) throw Object.assign(new Error(text), { data: { reason: reason ?? 'tool_error' } });
    return text;
  }

  ask(name: string, afterMs: number, signal?: AbortSignal): Promise<string> {
    this.#answer = { name, afterMs, ...(signal && { signal }) };
    return this.call('trigger-elicitation-request', {}, signal && { signal });
  }

  /** Leaves a call after a while. */
  async leave(afterMs: number, call: (signal: AbortSignal) => Promise<unknown>): Promise<boolean> {
    const leaving = AbortSignal.timeout(afterMs);
    try {
      await call(leaving);
      return false;
    } catch (error) {
      if (leaving.aborted) return true;
      throw error;
    }
  }

  async listen(forMs: number): Promise<boolean> {
    const subscription = await this.client.listen({ toolsListChanged: true });
    await sleep(forMs);
    await subscription.close();
    return true;
  }
}

/** Users who call until the signal aborts. Each one stays for a while, and another one takes its place. */
export async function use(
  url: string,
  name: string,
  { acts, stayMs, pauseMs, outcomes, signal }: UseOptions,
): Promise<void> {
  for (let visit = 0; !signal.aborted; visit += 1) {
    const user = new User();
    // Caches are by caller, and have to be full after the warm-up.
    const headers = { authorization: `Bearer ${name}-${visit % CALLERS}` };
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
    const leavesAtMs = performance.now() + stayMs;
    let startedAtMs = performance.now();
    try {
      await user.client.connect(transport);
      while (!signal.aborted && performance.now() < leavesAtMs) {
        startedAtMs = performance.now();
        await act(user, `${name}-${visit}-${Math.round(startedAtMs)}`, acts, outcomes);
        await sleep(Math.random() * 2 * pauseMs);
      }
    } catch (error) {
      outcomes.failed('connect', error, startedAtMs);
    }
    await user.client.close();
  }
}

/** The callers whose place one user takes, one after the other. The sessions of the others end meanwhile. */
const CALLERS = 3;

interface UseOptions {
  readonly acts: readonly WeightedAct[];
  readonly stayMs: number;
  readonly pauseMs: number;
  readonly outcomes: Outcomes;
  readonly signal: AbortSignal;
}

async function act(
  user: User,
  id: string,
  acts: readonly WeightedAct[],
  outcomes: Outcomes,
): Promise<void> {
  const startedAtMs = performance.now();
  let dice = Math.random() * acts.reduce((sum, [, times]) => sum + times, 0);
  const [name, , perform] = acts.find(([, times]) => (dice -= times) < 0) ?? acts[0]!;
  try {
    if (await perform(user, id)) outcomes.add(name);
    else outcomes.failed(name, new Error('the wrong reply'), Infinity);
  } catch (error) {
    outcomes.failed(name, error, startedAtMs);
  }
}
