/**
 * Which HTTP statuses say by their own meaning that the request was not carried out. All others say
 * nothing of it: 500 may come from the middle of the work, and 502, 503 and 504 from a proxy that lost
 * the server while it worked. RFC 9110 calls 503 "currently unable to handle the request" (section
 * 15.6.4) and promises nothing, and does not let a POST be repeated unless it is known that it was never
 * applied (section 9.2.2). 301 to 303 are what servers answer after the work as well ("see other",
 * section 15.4.4), whereas 307 and 308 ask for the same request elsewhere.
 */
const NOT_CARRIED_OUT: ReadonlySet<number> = new Set([
  307, 308,
  // RFC 9110, section 15.5; 408 is a request that did not arrive whole.
  400, 401, 403, 404, 405, 406, 407, 408, 410, 411, 413, 414, 415, 417, 421, 422, 426,
  // RFC 8470 (too early); RFC 6585: precondition required, too many requests, header fields too large.
  425,
  428, 429, 431,
]);

/** True unless the server certainly did not act on a request that it answered with this status. */
export function mayHaveActedWith(status: number): boolean {
  return !NOT_CARRIED_OUT.has(status);
}
