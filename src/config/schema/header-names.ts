/** Lists of header names of clients, and the names that cannot be in one. */
import { z } from 'zod';
import { HEADER_NAME, list } from './fields.ts';

/** Headers that the gateway, HTTP or MCP sets on requests to the server. */
export const OUR_HEADERS: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'last-event-id',
  'mcp-protocol-version',
  'mcp-session-id',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Why a header of the client is none of its own. The first that matches counts. */
const REASONS: readonly (readonly [names: RegExp, reason: string])[] = [
  [/^authorization$/, 'upstream.authorization decides about it, and it always tells callers apart'],
  [/^host$/, 'the gateway sets it, see upstream.hostHeader'],
  [/^(mcp-.*|last-event-id)$/, 'MCP defines it'],
  [
    /^(connection|keep-alive|te|trailer|transfer-encoding|upgrade|http2-settings|proxy-.*)$/,
    'it belongs to one connection',
  ],
  [/^(content-.*|accept(-.*)?|expect|date)$/, 'it describes one message'],
  [/^(forwarded|via|x-forwarded-.*|x-real-ip)$/, 'proxies set it'],
  [/^(set-)?cookie2?$/, 'MCP uses no cookies'],
  [/^origin$/, 'the gateway checks it'],
];

/** Describes a list of names of headers that clients send. It yields them in lower case. */
export function clientHeaders(meaning: string) {
  const name = z
    .string({ error: 'the name of an HTTP header' })
    .regex(HEADER_NAME, { error: 'the name of an HTTP header' })
    .transform((written, context): string => {
      const lower = written.toLowerCase();
      const reason = REASONS.find(([names]) => names.test(lower))?.[1];
      if (reason === undefined) return lower;
      context.addIssue({ code: 'custom', message: `another header (${reason})` });
      return z.NEVER;
    })
    .meta({ title: 'header name' });
  return list('header names', name, meaning, 32);
}
