/**
 * The rewritten draft: an incomplete result has no `resultType`, and is known by its members.
 * docs/dialects/rewritten.md says what differs.
 */
import { interimOf, plainResult, unlessEmpty, withRound, type Codec } from '../codec.ts';

export const rewritten: Codec = {
  streams: true,
  // Its input requests are elicitations and samplings ("Abstract", 4).
  askable: (profile) => ({ ...profile, roots: false }),
  // One of its examples has the members of a round beside `params`.
  decode: (message, method, params) => {
    const { inputResponses, requestState } = { ...message, ...params };
    return { method, params: withRound(params, inputResponses, requestState) };
  },
  encode: (result) => {
    const interim = interimOf(result);
    if (interim === null) return { result: plainResult(result) };
    const { inputRequests, requestState, meta } = interim;
    return { result: { ...unlessEmpty('inputRequests', inputRequests), requestState, ...meta } };
  },
};
