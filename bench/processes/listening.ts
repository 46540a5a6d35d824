/** Waiting for programs that do not say by themselves where they listen. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { request } from 'undici';
import type { Child } from './child.ts';

const START_MS = 20_000;
const POLL_MS = 5;

/** A loopback port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port was given');
  return address.port;
}

/** Resolves when the URL responds with 200. Throws when the process ends before, or after 20 s. */
export function answers(url: string, child: Child): Promise<void> {
  return responds(url, child, (status) => status === 200);
}

/** The same with any status. */
export function answersAtAll(url: string, child: Child): Promise<void> {
  return responds(url, child, () => true);
}

async function responds(
  url: string,
  child: Child,
  isReady: (status: number) => boolean,
): Promise<void> {
  const giveUpAt = performance.now() + START_MS;
  for (;;) {
    if (child.ended || performance.now() > giveUpAt) {
      throw new Error(`nothing answered at ${url}\n${child.errors}`);
    }
    try {
      const { statusCode, body } = await request(url);
      await body.dump();
      if (isReady(statusCode)) return;
    } catch {
      // It does not listen yet.
    }
    await pause(POLL_MS);
  }
}
