/** A question's two halves as a modern client sees them: the call that is asked, and the retry. */
import { request } from 'undici';
import type { Connection } from './load.ts';
import { ACCEPTED, modernCall } from './messages.ts';

/** What a client needs to come back with its answers. */
export interface Round {
  readonly keys: readonly string[];
  readonly requestState: string;
}

/** Makes the connection's next call, of the tool that asks. Throws when the answer asks nothing. */
export async function askGateway(connection: Connection): Promise<Round> {
  const text = await connection.next();
  const { result } = JSON.parse(text) as {
    result?: { resultType?: string; inputRequests?: object; requestState?: string };
  };
  if (result?.resultType !== 'input_required' || result.requestState === undefined) {
    throw new Error(`not a question: ${text}`);
  }
  return { keys: Object.keys(result.inputRequests ?? {}), requestState: result.requestState };
}

/** The members of a retry that accepts everything that was asked. */
export function acceptedRetry({ keys, requestState }: Round): object {
  const inputResponses = Object.fromEntries(keys.map((key) => [key, ACCEPTED]));
  return { inputResponses, requestState };
}

/** Sends the retry. Throws when it does not come to the result. */
export async function retryGateway(origin: string, round: Round): Promise<void> {
  const { headers, body } = modernCall('ask', 1, acceptedRetry(round));
  const answer = await request(`${origin}/mcp`, { method: 'POST', headers, body });
  const text = await answer.body.text();
  if (!text.includes('"content"')) throw new Error(`not a result: ${text}`);
}
