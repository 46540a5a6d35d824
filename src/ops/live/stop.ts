/** The one thing that can be done from the live page: cancel a call that waits for its client. */
import type { IncomingHttpHeaders } from 'node:http';
import { z } from 'zod';

export const stopOrder = z.object({
  call: z.string().max(64),
  /** The address of the operator; `null` if it is not known. */
  by: z.string().max(64).nullable(),
});
export type StopOrder = Readonly<z.infer<typeof stopOrder>>;

/** The header that only the page and programs send: a page of another site would have to ask for it first (CORS). */
const STOP_HEADER = 'x-mrtr-gateway-action';

/** Tells whether the page or a program sends a request, and not a page of another site. */
export function asksToStop(headers: IncomingHttpHeaders): boolean {
  return headers[STOP_HEADER] === 'cancel';
}
