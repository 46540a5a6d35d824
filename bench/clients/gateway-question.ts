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

/** In what a call differs from that of the caller of the benchmark. */
export interface AskOptions {
  readonly principal?: string;
  /** Further arguments. */
  readonly more?: object;
}

/** The call of the tool that asks. */
export function askingCall(callNumber: number, options: AskOptions = {}): HttpCall {
  return modernCall('ask', callNumber, {}, options.principal, options.more);
}

/** The retry that accepts everything that was asked. @param options those of the call */
export function acceptedRetry(round: Round, options: AskOptions = {}): HttpCall {
  const { callNumber, keys, requestState } = round;
  const inputResponses = Object.fromEntries(keys.map((key) => [key, acceptedIn(callNumber)]));
  const retry = { inputResponses, requestState };
  return modernCall('ask', callNumber, retry, options.principal, options.more);
}

/** Sends the retry. Throws when what comes is not the result that repeats the answer of this call. */
export async function retryGateway(
  connection: Connection,
  round: Round,
  options: AskOptions = {},
): Promise<void> {
  const text = await connection.send(acceptedRetry(round, options));
  if (!text.includes('"content":[') || !text.includes(markOf(round.callNumber))) {
    throw new Error(`not the result of call ${round.callNumber}: ${text}`);
  }
}
