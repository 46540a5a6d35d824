import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readRequestMeta, RefusalError } from '../../../../src/edge/request/message.ts';
import type { JsonObject } from '../../../../src/protocol/json.ts';
import { EMPTY_PROFILE } from '../../../../src/protocol/translate/client-profile.ts';
import { arbitraryJsonObject, objectsOf, unknownMeta } from '../../../fixtures/arbitrary/json.ts';

const PREFIX = 'io.modelcontextprotocol/';
const CAPABILITIES = `${PREFIX}clientCapabilities`;
const INFO = `${PREFIX}clientInfo`;
const LOG_LEVEL = `${PREFIX}logLevel`;

/** Reads what may be wrong. */
function judge(meta: JsonObject) {
  try {
    return { type: 'read', meta: readRequestMeta(meta, 400) } as const;
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error;
    return { type: 'wrong', problem: error.message } as const;
  }
}

function read(meta: JsonObject) {
  const result = judge({ [CAPABILITIES]: {}, ...meta });
  if (result.type === 'wrong') throw new Error(result.problem);
  return result.meta;
}

function problem(meta: JsonObject): string {
  const result = judge(meta);
  return result.type === 'wrong' ? result.problem : 'none';
}

test('capabilities alone are enough (basic/index, "Per-request protocol fields")', () => {
  expect(read({})).toEqual({
    profile: EMPTY_PROFILE,
    clientInfo: null,
    logLevel: null,
    progressToken: null,
    forwardedMeta: {},
  });
});

// Rule envelope-1 (basic/index, "Statelessness"): Capabilities count only for the request that declares them.
test('capabilities say what this request may be asked, and no other request does', () => {
  expect(read({ [CAPABILITIES]: { roots: {} } }).profile).toEqual({
    ...EMPTY_PROFILE,
    roots: true,
  });
});

// Rule validation-12 (basic/index, "`_meta`"): A malformed `clientCapabilities`, `clientInfo` or progress token gets
// 400, -32602 with the name of the member. `clientInfo` can be missing.
describe('what is wrong is named', () => {
  test.each<[JsonObject, string]>([
    [{}, CAPABILITIES],
    [{ [CAPABILITIES]: null }, CAPABILITIES],
    [{ [CAPABILITIES]: [] }, CAPABILITIES],
    [{ [CAPABILITIES]: {}, [INFO]: {} }, INFO],
    [{ [CAPABILITIES]: {}, [INFO]: null }, INFO],
    [{ [CAPABILITIES]: {}, [INFO]: { name: 'c', version: 1 } }, INFO],
    [{ [CAPABILITIES]: {}, progressToken: 1.5 }, 'progressToken'],
    [{ [CAPABILITIES]: {}, progressToken: null }, 'progressToken'],
    [{ [CAPABILITIES]: {}, progressToken: {} }, 'progressToken'],
    [{ [CAPABILITIES]: {}, [LOG_LEVEL]: 5 }, LOG_LEVEL],
  ])('%j: %s', (meta, member) => {
    expect(problem(meta)).toContain(`"${member}"`);
  });
});

// Rule envelope-2 (basic/index, "`_meta`"): `clientInfo` decides nothing. Its `name`, `version` and `title` are sent
// in the legacy `initialize`.
// Rule handshake-7.
test('of clientInfo goes on what every legacy revision knows', () => {
  const info = { name: 'c', version: '1', title: 'C', icons: [], websiteUrl: 'https://a.example' };
  expect(read({ [INFO]: info }).clientInfo).toEqual({ name: 'c', version: '1', title: 'C' });
  expect(read({ [INFO]: { ...info, title: 5 } }).clientInfo).toEqual({ name: 'c', version: '1' });
});

test.each([0, -1, 'a', ''])('the progress token %j is kept with its type', (progressToken) => {
  expect(read({ progressToken }).progressToken).toBe(progressToken);
});

test('trace context and vendor members go on, whatever they are', () => {
  fc.assert(
    fc.property(unknownMeta, (meta) => {
      expect(read(meta).forwardedMeta).toEqual(meta);
    }),
  );
});

// Rule envelope-3.
test('no reserved member goes on: a client must not inject a legacy task', () => {
  const forged = { [`${PREFIX}related-task`]: { taskId: 't' }, 'com.mcp/a': 1, progressToken: 1 };
  expect(read({ ...forged, 'com.example/a': 1 }).forwardedMeta).toEqual({ 'com.example/a': 1 });
});

test('no malformed input makes it throw', () => {
  const words = [CAPABILITIES, INFO, LOG_LEVEL, 'progressToken', 'name', 'version', 'elicitation'];
  fc.assert(
    fc.property(fc.oneof(objectsOf(words), arbitraryJsonObject), (meta) => {
      expect(['read', 'wrong']).toContain(judge(meta).type);
    }),
    { numRuns: 500 },
  );
});
