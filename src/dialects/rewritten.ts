/**
 * The rewritten draft: an incomplete result has no `resultType`, and is known by its members.
 * docs/dialects/rewritten.md says what differs.
 */
import { stateMember, unlessEmpty, withRound, type Codec } from './codec.ts';
import { draftEncoder, withTasks } from './persistent.ts';

export const rewritten: Codec = {
  streams: true,
  hasTasks: true,
  // Its input requests are elicitations and samplings ("Abstract", 4).
  askable: (profile) => ({ ...profile, roots: false }),
  // One of its examples has the members of a round beside `params`.
  decode: (message, method, params) => {
    const { inputResponses, requestState } = { ...message, ...params };
    return withTasks({ method, params: withRound(params, inputResponses, requestState) });
  },
  encode: draftEncoder({
    complete: (result) => ({ result }),
    interim: ({ inputRequests, requestState, meta }) => ({
      result: {
        ...unlessEmpty('inputRequests', inputRequests),
        ...stateMember('requestState', requestState),
        ...meta,
      },
    }),
  }),
};
