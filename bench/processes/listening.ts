/** Waiting for programs that do not say by themselves where they listen. */
import { setTimeout as pause } from 'node:timers/promises';
import { request } from 'undici';
import type { Child } from './child.ts';

const START_MS = 20_000;
const POLL_MS = 5;

/** Resolves when the URL responds with 200. Throws when the process ends before, or after 20 s. */
export async function answers(url: string, child: Child): Promise<void> {
  const giveUpAt = performance.now() + START_MS;
  for (;;) {
    if (child.ended || performance.now() > giveUpAt) {
      throw new Error(`nothing answered at ${url}\n${child.errors}`);
    }
    try {
      const { statusCode, body } = await request(url);
      await body.dump();
      if (statusCode === 200) return;
    } catch {
      // It does not listen yet.
    }
    await pause(POLL_MS);
  }
}
