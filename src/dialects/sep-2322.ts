/** SEP-2322 as it was approved. docs/dialects/sep-2322.md says what differs from the final revision. */
import { stateMember, unlessEmpty, type Codec } from './codec.ts';
import { draftEncoder, withTasks } from './persistent.ts';

export const sep2322: Codec = {
  streams: true,
  hasTasks: true,
  askable: (profile) => profile,
  decode: (_message, method, params) => withTasks({ method, params }),
  encode: draftEncoder({
    complete: (result) => ({ result: { resultType: 'complete', ...result } }),
    interim: ({ inputRequests, requestState, meta }) => ({
      result: {
        resultType: 'input_required',
        ...unlessEmpty('inputRequests', inputRequests),
        ...stateMember('requestState', requestState),
        ...meta,
      },
    }),
  }),
};
