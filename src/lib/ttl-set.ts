/** A set whose members expire, so that it cannot grow without limit. */
import type { Clock } from './clock.ts';

export class TtlSet<Member> {
  readonly #clock: Clock;
  readonly #lifetimeMs: number;
  /** When each member expires, oldest first. */
  readonly #members = new Map<Member, number>();

  constructor(clock: Clock, lifetimeMs: number) {
    this.#clock = clock;
    this.#lifetimeMs = lifetimeMs;
  }

  add(member: Member): void {
    const nowMs = this.#clock.now();
    for (const [oldest, expiresAtMs] of this.#members) {
      if (expiresAtMs > nowMs) break;
      this.#members.delete(oldest);
    }
    this.#members.delete(member);
    this.#members.set(member, nowMs + this.#lifetimeMs);
  }

  delete(member: Member): void {
    this.#members.delete(member);
  }

  has(member: Member): boolean {
    return (this.#members.get(member) ?? 0) > this.#clock.now();
  }
}
