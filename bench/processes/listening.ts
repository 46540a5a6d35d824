/** Waiting for programs that do not say by themselves where they listen. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { request } from 'undici';
import type { Child } from './child.ts';

const START_MS = 20_000;
const POLL_MS = 5;

/** Resolves when the URL responds with 200. Throws when the process ends before, or after 20 s. */
export function answers(url: string, child: Child): Promise<void> {
  return until(url, child, async () => {
    const { statusCode, body } = await request(url);
    await body.dump();
    return statusCode === 200;
  });
}

/** Resolves when the process takes connections at this port, whatever it responds. Throws like `answers`. */
export function takesConnections(port: number, child: Child): Promise<void> {
  return until(`127.0.0.1:${port}`, child, async () => {
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    socket.destroy();
    return true;
  });
}

async function until(where: string, child: Child, isUp: () => Promise<boolean>): Promise<void> {
  const giveUpAt = performance.now() + START_MS;
  for (;;) {
    if (child.ended || performance.now() > giveUpAt) {
      throw new Error(`nothing answered at ${where}\n${child.errors}`);
    }
    try {
      if (await isUp()) return;
    } catch {
      // It does not listen yet.
    }
    await pause(POLL_MS);
  }
}
