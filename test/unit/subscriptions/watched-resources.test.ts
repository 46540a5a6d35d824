/** Counting who listens to which resource: the server hears of the first and of the last. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  WatchedResources,
  type ConnectionNumber,
} from '../../../src/subscriptions/watched-resources.ts';

/** A server that answers when it is told to, and keeps one set of subscriptions per connection. */
class Server {
  readonly log: string[] = [];
  readonly refused = new Set<string>();
  subscribed = new Set<string>();
  connectionNumber: ConnectionNumber = 0;
  #waiting: (() => void)[] = [];
  held = false;

  async subscribe(uri: string): Promise<ConnectionNumber | null> {
    this.log.push(`subscribe ${uri}`);
    const { connectionNumber, subscribed } = this;
    await this.#turn();
    if (this.refused.has(uri) || connectionNumber !== this.connectionNumber) return null;
    subscribed.add(uri);
    return connectionNumber;
  }

  async unsubscribe(uri: string): Promise<void> {
    this.log.push(`unsubscribe ${uri}`);
    const { subscribed } = this;
    await this.#turn();
    subscribed.delete(uri);
  }

  restart(): ConnectionNumber {
    this.subscribed = new Set();
    return (this.connectionNumber += 1);
  }

  answer(): void {
    for (const go of this.#waiting.splice(0)) go();
  }

  async #turn(): Promise<void> {
    if (this.held) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('a resource', () => {
  test('is subscribed to for the first listener and unsubscribed from after the last', async () => {
    const server = new Server();
    const watched = new WatchedResources(server);
    expect(await watched.join('a')).toBe(true);
    expect(await watched.join('a')).toBe(true);
    await watched.leave('a');
    expect(server.log).toEqual(['subscribe a']);
    await watched.leave('a');
    expect(server.log).toEqual(['subscribe a', 'unsubscribe a']);
  });

  test('is asked for once by two who come while the server still thinks', async () => {
    const server = new Server();
    server.held = true;
    const watched = new WatchedResources(server);
    const both = Promise.all([watched.join('a'), watched.join('a')]);
    await settled();
    server.answer();
    expect(await both).toEqual([true, true]);
    expect(server.log).toEqual(['subscribe a']);
  });

  test('stays subscribed when somebody comes before the last one was taken out', async () => {
    const server = new Server();
    const watched = new WatchedResources(server);
    await watched.join('a');
    const left = watched.leave('a');
    const joined = watched.join('a');
    expect(await joined).toBe(true);
    await left;
    expect(server.log).toEqual(['subscribe a']);
  });

  test('is subscribed to again if a listener joins while it is being unsubscribed from', async () => {
    const server = new Server();
    const watched = new WatchedResources(server);
    await watched.join('a');
    server.held = true;
    const left = watched.leave('a');
    await settled();
    const joined = watched.join('a');
    server.held = false;
    server.answer();
    expect(await joined).toBe(true);
    await left;
    expect(server.log).toEqual(['subscribe a', 'unsubscribe a', 'subscribe a']);
    expect([...server.subscribed]).toEqual(['a']);
  });

  test('that was refused is tried again for the next listener, and never unsubscribed from', async () => {
    const server = new Server();
    server.refused.add('a');
    const watched = new WatchedResources(server);
    expect(await watched.join('a')).toBe(false);
    await watched.leave('a');
    server.refused.clear();
    expect(await watched.join('a')).toBe(true);
    expect(server.log).toEqual(['subscribe a', 'subscribe a']);
  });

  test('that nobody joined may be left without harm', async () => {
    const server = new Server();
    const watched = new WatchedResources(server);
    await watched.leave('a');
    expect(server.log).toEqual([]);
  });

  test('is subscribed to on a new connection, where nothing of the old one is unsubscribed', async () => {
    const server = new Server();
    const watched = new WatchedResources(server);
    await watched.join('a');
    await watched.join('b');
    const connectionNumber = server.restart();
    const left = watched.leave('b');
    await watched.moveTo(connectionNumber);
    await left;
    expect([...server.subscribed]).toEqual(['a']);
    expect(await watched.join('a')).toBe(true);
    expect(server.log.filter((line) => line === 'subscribe a')).toHaveLength(2);
  });
});

// Rule changes-4.
test('whoever comes, leaves or loses the connection in whatever order: what is wanted is what is subscribed to', async () => {
  const step = fc.oneof(
    fc.record({
      kind: fc.constantFrom('join' as const, 'leave' as const),
      uri: fc.constantFrom('a', 'b'),
    }),
    fc.record({ kind: fc.constantFrom('restart' as const, 'answer' as const) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const server = new Server();
      server.held = true;
      const watched = new WatchedResources(server);
      const counts = new Map([
        ['a', 0],
        ['b', 0],
      ]);
      for (const one of steps) {
        if (one.kind === 'join') {
          counts.set(one.uri, (counts.get(one.uri) ?? 0) + 1);
          void watched.join(one.uri);
        } else if (one.kind === 'leave') {
          counts.set(one.uri, Math.max(0, (counts.get(one.uri) ?? 0) - 1));
          void watched.leave(one.uri);
        } else if (one.kind === 'restart') {
          void watched.moveTo(server.restart());
        } else {
          server.answer();
          await settled();
        }
      }
      server.held = false;
      server.answer();
      await settled();
      await settled();
      const wanted = [...counts].filter(([, count]) => count > 0).map(([uri]) => uri);
      expect([...server.subscribed].sort()).toEqual(wanted);
    }),
    { numRuns: 300 },
  );
});
