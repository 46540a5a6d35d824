/** A question's two halves as a modern client sees them: the call that is asked, and the retry. */
import type { Connection } from './load.ts';
import { acceptedIn, markOf, modernCall, type HttpCall } from './messages.ts';

/** What a client needs to come back with its answers. */
export interface Round {
  readonly callNumber: number;
  readonly keys: readonly string[];
  readonly requestState: string;
}

/** Makes the connection's next call, of the tool that asks. Throws when the answer asks nothing. */
export async function askGateway(connection: Connection): Promise<Round> {
  const { callNumber, text } = await connection.next();
  const round = readRound(callNumber, text);
  if (round === null) throw new Error(`not one question: ${text}`);
  return round;
}

/** Reads the answer to a call; `null` if it is not one question. */
export function readRound(callNumber: number, text: string): Round | null {
  const { result } = JSON.parse(replyIn(text)) as {
    result?: { resultType?: string; inputRequests?: object; requestState?: string };
  };
  const keys = Object.keys(result?.inputRequests ?? {});
  const isQuestion = result?.resultType === 'input_required' && keys.length === 1;
  if (!isQuestion || result.requestState === undefined) return null;
  return { callNumber, keys, requestState: result.requestState };
}

/** The JSON of the reply. A gateway that takes long has begun an event stream, whose last event it is. */
function replyIn(text: string): string {
  if (text.startsWith('{')) return text;
  const start = text.lastIndexOf('\ndata: ') + '\ndata: '.length;
  return text.slice(start, text.indexOf('\n', start));
}

/**
 * The retry that accepts everything that was asked.
 * @param more the further arguments of the call
 */
export function acceptedRetry(round: Round, more: object = {}): HttpCall {
  const { callNumber, keys, requestState } = round;
  const inputResponses = Object.fromEntries(keys.map((key) => [key, acceptedIn(callNumber)]));
  return modernCall('ask', callNumber, { inputResponses, requestState }, 'bench', more);
}

/** Sends the retry, with the further arguments of its call. Throws when what comes is not the result that repeats the answer of this call. */
export async function retryGateway(
  connection: Connection,
  round: Round,
  more: object = {},
): Promise<void> {
  const text = await connection.send(acceptedRetry(round, more));
  if (!text.includes('"content":[') || !text.includes(markOf(round.callNumber))) {
    throw new Error(`not the result of call ${round.callNumber}: ${text}`);
  }
}
