/** HTTP towards an authorization server: bounded in time and size, without redirects. */
import { request } from 'undici';
import type { Clock } from '../lib/clock.ts';

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 1024 * 1024;

export interface JsonResponse {
  readonly status: number;
  /** `undefined` if the body is not JSON. */
  readonly body: unknown;
}

/**
 * Sends a request, and reads the response as JSON.
 * @param form the body of a POST; `null` for a GET
 * @throws Error if there is no response in time, or its body is too large
 */
export async function fetchJson(
  url: URL,
  { form, headers = {} }: { form: URLSearchParams | null; headers?: Record<string, string> },
  clock: Clock,
): Promise<JsonResponse> {
  const timeout = new AbortController();
  const timer = clock.setTimer(TIMEOUT_MS, () => {
    timeout.abort(new Error(`no response within ${TIMEOUT_MS} ms`));
  });
  try {
    const { statusCode, body } = await request(url, {
      method: form === null ? 'GET' : 'POST',
      headers: {
        accept: 'application/json',
        ...(form !== null && { 'content-type': 'application/x-www-form-urlencoded' }),
        ...headers,
      },
      ...(form !== null && { body: form.toString() }),
      signal: timeout.signal,
    });
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > MAX_BYTES) throw new Error(`the response is larger than ${MAX_BYTES} bytes`);
      chunks.push(chunk);
    }
    return { status: statusCode, body: parsed(Buffer.concat(chunks).toString()) };
  } finally {
    timer.cancel();
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
