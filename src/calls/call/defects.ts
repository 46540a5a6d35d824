/** Work of one call that nobody waits for. A defect in it ends that call, and no other one. */
import { inBackground } from '../../lib/background.ts';
import { callFailure } from '../../model/failures.ts';
import type { CallData } from './data.ts';
import { idsOf } from './log.ts';
import { failCall } from './replies.ts';

const DEFECT = callFailure('internal_error', 'unknown', 'Internal error');

/** Lets work go on, and ends the call with an error if there is a defect in it. */
export function workFor(call: CallData, work: PromiseLike<unknown>): void {
  const end = () => {
    call.exchange.stop('the gateway failed');
    failCall(call, DEFECT);
  };
  const { route, call: id } = idsOf(call);
  inBackground(work, end, { route, call: id });
}
