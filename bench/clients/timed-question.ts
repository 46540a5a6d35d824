/** A question that says when its server sent it, by the clock that all processes of a machine share. */

const SENT_AT = /sent at (\d+)/;

/** The message of a question that is sent now. */
export function timedMessage(): string {
  return `Which name? (sent at ${process.hrtime.bigint()})`;
}

/**
 * Reads in a response when its question was sent.
 * @param receivedAt when the response was there, by `process.hrtime.bigint()`
 * @returns how long it was on its way, in ms
 * @throws Error if the response has no such question
 */
export function onItsWayMs(text: string, receivedAt: bigint): number {
  const sentAt = SENT_AT.exec(text)?.[1];
  if (sentAt === undefined) throw new Error(`no question that is timed: ${text.slice(0, 200)}`);
  return Number(receivedAt - BigInt(sentAt)) / 1e6;
}
