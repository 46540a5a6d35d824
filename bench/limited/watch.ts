/** Looks at a process all the time: its memory, and whether `/healthz` answers. */
import { request } from 'undici';
import type { Child } from '../processes/child.ts';
import { residentBytes } from '../processes/resident.ts';

const EVERY_MS = 200;
/** Kubernetes waits for a second by default. */
const HEALTH_TIMEOUT_MS = 10_000;

export class Watch {
  readonly #child: Child;
  readonly #healthUrl: string;
  readonly #timer: NodeJS.Timeout;
  #isAsking = false;
  highestRssBytes = 0;
  slowestHealthMs = 0;
  unansweredHealth = 0;

  constructor(child: Child, adminOrigin: string) {
    this.#child = child;
    this.#healthUrl = `${adminOrigin}/healthz`;
    this.#timer = setInterval(() => this.#look(), EVERY_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const rss = residentBytes(this.#child.pid);
    if (rss > this.highestRssBytes) this.highestRssBytes = rss;
    if (!this.#isAsking && !this.#child.ended) void this.#askHealth();
  }

  async #askHealth(): Promise<void> {
    this.#isAsking = true;
    const startedAt = performance.now();
    try {
      const signal = AbortSignal.timeout(HEALTH_TIMEOUT_MS);
      const { statusCode, body } = await request(this.#healthUrl, { signal });
      await body.dump();
      if (statusCode !== 200) this.unansweredHealth += 1;
    } catch {
      // What the end of the process interrupts is told as its end.
      if (!this.#child.ended) this.unansweredHealth += 1;
    }
    const tookMs = performance.now() - startedAt;
    if (tookMs > this.slowestHealthMs) this.slowestHealthMs = tookMs;
    this.#isAsking = false;
  }
}
