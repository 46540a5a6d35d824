/** SEP-2322 as it was approved. docs/dialects/sep-2322.md says what differs from the final revision. */
import { interimOf, plainResult, unlessEmpty, type Codec } from '../codec.ts';

export const sep2322: Codec = {
  streams: true,
  askable: (profile) => profile,
  decode: (_message, method, params) => ({ method, params }),
  encode: (result) => {
    const interim = interimOf(result);
    if (interim === null) return { result: { resultType: 'complete', ...plainResult(result) } };
    const { inputRequests, requestState, meta } = interim;
    return {
      result: {
        resultType: 'input_required',
        ...unlessEmpty('inputRequests', inputRequests),
        requestState,
        ...meta,
      },
    };
  },
};
