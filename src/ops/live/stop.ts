/** The one thing that can be done from the live page: cancel a call that waits for its client. */
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { z } from 'zod';
import { isLoopbackHost } from '../../lib/http.ts';

export const stopOrder = z.object({
  call: z.string().max(64),
  /** The address of the operator; `null` if it is not known. */
  by: z.string().max(64).nullable(),
});
export type StopOrder = Readonly<z.infer<typeof stopOrder>>;

/** The header that only the page and programs send: a page of another site would have to ask for it first (CORS). */
const STOP_HEADER = 'x-mrtr-gateway-action';

/** Tells whether the page or a program sends a request, and not a page of another site. */
export function isFromOperator(headers: IncomingHttpHeaders): boolean {
  const { host, origin, 'sec-fetch-site': site } = headers;
  if (headers[STOP_HEADER] !== 'cancel' || typeof host !== 'string') return false;
  // Under another name, a page could have rebound its own name to this address.
  const name = URL.parse(`http://${host}`)?.hostname.replace(/^\[|\]$/g, '') ?? '';
  if (isIP(name) === 0 && !isLoopbackHost(name)) return false;
  if (site !== undefined) return site === 'same-origin';
  if (origin === undefined) return true;
  return URL.parse(String(origin))?.host === host.toLowerCase();
}
