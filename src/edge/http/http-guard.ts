/**
 * What HTTP allows and a proxy must not: requests that two parsers could read differently. Checked on
 * everything that comes in, before it is known for whom it is.
 */
import type { IncomingMessage } from 'node:http';
import { readHeader } from './header-fields.ts';

export interface HttpProblem {
  readonly httpStatus: number;
  readonly message: string;
}

/** Headers of which a second one would leave open which counts. */
const SINGLE = ['host', 'origin', 'authorization', 'content-type', 'content-length'];

/** More than any client needs, and few enough to look through. */
const MAX_HEADERS = 100;

/** The reason to refuse this request as HTTP, or `null`. */
export function httpProblem(request: IncomingMessage): HttpProblem | null {
  const { rawHeaders, headers, url = '' } = request;
  if (rawHeaders.length / 2 > MAX_HEADERS) {
    return problem(431, `Too many headers: at most ${MAX_HEADERS} are allowed`);
  }
  for (const name of SINGLE) {
    if (readHeader(rawHeaders, name).type === 'repeated') {
      return problem(400, `Duplicate ${name} header`);
    }
  }
  if (headers.host === undefined || headers.host === '') {
    return problem(400, 'The Host header is missing');
  }
  if (!url.startsWith('/') || url.startsWith('//')) {
    return problem(400, 'The request target must be a path');
  }
  const transferEncoding = headers['transfer-encoding'];
  if (transferEncoding !== undefined && transferEncoding.trim().toLowerCase() !== 'chunked') {
    return problem(501, 'Unsupported Transfer-Encoding: only "chunked" is supported');
  }
  return null;
}

function problem(httpStatus: number, message: string): HttpProblem {
  return { httpStatus, message };
}
