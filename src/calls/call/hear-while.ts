/** A listener that is deaf to what comes too late. */
import type { ExchangeListener } from '../../upstream/session/exchange.ts';

/** Passes everything on while the condition holds, and nothing when it does not. */
export function hearWhile(holds: () => boolean, listener: ExchangeListener): ExchangeListener {
  const hear =
    <Heard extends readonly unknown[]>(tell: (...heard: Heard) => void) =>
    (...heard: Heard) => {
      if (holds()) tell(...heard);
    };
  return {
    asked: hear(listener.asked),
    withdrawn: hear(listener.withdrawn),
    unanswerable: hear(listener.unanswerable),
    notified: hear(listener.notified),
    replied: hear(listener.replied),
    interrupted: hear(listener.interrupted),
    resumed: hear(listener.resumed),
    lost: hear(listener.lost),
    backlog: () => (holds() ? listener.backlog() : null),
  };
}
