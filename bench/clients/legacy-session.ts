/** A session with the upstream, opened past everything that is measured. */
import { request } from 'undici';
import { legacyInitialize, legacyInitialized, type HttpCall } from './messages.ts';

/** Opens a session of the server at this URL. @returns its id */
export async function openLegacySession(url: string): Promise<string> {
  const session = (await post(url, legacyInitialize()))['mcp-session-id'];
  if (typeof session !== 'string') throw new Error('the upstream gave no session');
  await post(url, legacyInitialized(session));
  return session;
}

async function post(url: string, { headers, body }: HttpCall) {
  const answer = await request(url, { method: 'POST', headers, body });
  await answer.body.dump();
  return answer.headers;
}
