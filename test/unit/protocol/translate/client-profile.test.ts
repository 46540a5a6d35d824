import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  EMPTY_PROFILE,
  legacyCapabilities,
  profileKey,
  readProfile,
  type ClientProfile,
} from '../../../../src/protocol/translate/client-profile.ts';
import { LEGACY_REVISIONS } from '../../../../src/protocol/meta.ts';
import { arbitraryJsonObject, objectsOf } from '../../../fixtures/arbitrary/json.ts';
import { schemaProblems } from '../../../fixtures/wire/official-schema.ts';

const APPS_VIEW = 'text/html;profile=mcp-app';
const APPS = { 'io.modelcontextprotocol/ui': { mimeTypes: [APPS_VIEW] } };
const NO_VIEWS = { 'io.modelcontextprotocol/ui': {} };
const OPENAI = { 'openai/elicitation': { form: {} } };
const FORMS = { elicitation: { form: {} } };

const profiles: fc.Arbitrary<ClientProfile> = fc
  .record({
    elicitationForm: fc.boolean(),
    elicitationUrl: fc.boolean(),
    sampling: fc.boolean(),
    samplingTools: fc.boolean(),
    samplingContext: fc.boolean(),
    roots: fc.boolean(),
    extensions: fc.constantFrom({}, APPS, NO_VIEWS),
    openaiForms: fc.boolean(),
  })
  .map(({ sampling, samplingTools, samplingContext, openaiForms, extensions, ...rest }) => ({
    ...rest,
    extensions: rest.elicitationForm && openaiForms ? { ...extensions, ...OPENAI } : extensions,
    sampling,
    samplingTools: sampling && samplingTools,
    samplingContext: sampling && samplingContext,
  }));

describe('what a client declared', () => {
  // Rule handshake-5.
  test.each([
    [{}, {}],
    [{ elicitation: {} }, { elicitationForm: true }],
    [{ elicitation: { form: {} } }, { elicitationForm: true }],
    [{ elicitation: { url: {} } }, { elicitationUrl: true }],
    [{ elicitation: { form: {}, url: {} } }, { elicitationForm: true, elicitationUrl: true }],
    [{ sampling: {} }, { sampling: true }],
    [{ sampling: { tools: {} } }, { sampling: true, samplingTools: true }],
    [{ sampling: { context: {} } }, { sampling: true, samplingContext: true }],
    [{ roots: { listChanged: true } }, { roots: true }],
    [{ extensions: APPS }, { extensions: APPS }],
    [
      { extensions: { ...APPS, 'io.modelcontextprotocol/tasks': {} } },
      { extensions: APPS, tasks: true },
    ],
    [
      { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['x/y', APPS_VIEW], more: 1 } } },
      { extensions: APPS },
    ],
    [{ extensions: { 'io.modelcontextprotocol/ui': { more: 1 } } }, { extensions: NO_VIEWS }],
    [{ extensions: { 'io.modelcontextprotocol/ui': true, 'com.example/x': {} } }, {}],
    [
      { ...FORMS, extensions: OPENAI },
      { elicitationForm: true, extensions: OPENAI },
    ],
    [
      { elicitation: {}, extensions: OPENAI },
      { elicitationForm: true, extensions: OPENAI },
    ],
    [
      { ...FORMS, extensions: { 'openai/elicitation': { form: { more: 1 }, more: 1 }, ...APPS } },
      { elicitationForm: true, extensions: { ...APPS, ...OPENAI } },
    ],
    [{ extensions: OPENAI }, {}],
    [{ elicitation: { url: {} }, extensions: OPENAI }, { elicitationUrl: true }],
    [{ ...FORMS, extensions: { 'openai/elicitation': { form: true } } }, { elicitationForm: true }],
    [{ ...FORMS, experimental: OPENAI }, { elicitationForm: true }],
    [{ ...FORMS, extensions: { 'openai/settings': {} } }, { elicitationForm: true }],
    [{ elicitation: true, sampling: 'yes', roots: null }, {}],
  ])('%j (elicitation, "Capabilities": an empty object means form mode)', (declared, expected) => {
    expect(readProfile(declared)).toEqual({ ...EMPTY_PROFILE, ...expected });
  });

  test('no malformed input makes reading it throw, or finds what is not there', () => {
    const words = ['elicitation', 'form', 'url', 'sampling', 'tools', 'context', 'roots'];
    fc.assert(
      fc.property(fc.oneof(objectsOf(words), arbitraryJsonObject), (declared) => {
        const profile = readProfile(declared);
        if (!Object.hasOwn(declared, 'roots')) expect(profile.roots).toBe(false);
        if (!Object.hasOwn(declared, 'sampling')) expect(profile.sampling).toBe(false);
        if (!Object.hasOwn(declared, 'elicitation')) expect(profile.elicitationForm).toBe(false);
      }),
    );
  });
});

describe('what a legacy server is told', () => {
  // Rule handshake-3 (basic, "`_meta`"): The server is told what the client of this request declares: forms, URLs,
  // sampling with `tools` and `context`, roots.
  // Rule handshake-5.
  test('is neither more nor less than what was declared (2025-11-25)', () => {
    fc.assert(
      fc.property(profiles, (profile) => {
        expect(readProfile(legacyCapabilities(profile, '2025-11-25'))).toEqual(profile);
        expect(readProfile(legacyCapabilities(profile, null))).toEqual(profile);
      }),
    );
  });

  // Rule roots-3 (2025-11-25 roots, "Root List Changes"): `roots.listChanged` is declared to the server only with
  // `upstream.roots: caller`.
  // Rule handshake-6.
  test('never promises tasks, nor news of roots that the gateway does not tell', () => {
    const declared = { roots: { listChanged: true }, tasks: {}, experimental: {}, extensions: {} };
    expect(legacyCapabilities(readProfile(declared), '2025-11-25')).toEqual({ roots: {} });
    const { roots } = legacyCapabilities(readProfile(declared), '2025-11-25', true);
    expect(roots).toEqual({ listChanged: true });
  });

  // Rule handshake-5 (elicitation, "Capabilities"; 2025-06-18 elicitation, "Capabilities"): `elicitation: {}` means
  // forms alone. A server before `2025-11-25` sees no elicitation of a client that has URLs only.
  test.each(['2025-06-18', '2025-03-26', '2024-11-05'] as const)(
    'says nothing of elicitation to a server of %s when only URLs can be asked: there it means forms',
    (revision) => {
      const urlOnly = { ...EMPTY_PROFILE, elicitationUrl: true };
      expect(legacyCapabilities(urlOnly, revision)).toEqual({});
      expect(legacyCapabilities({ ...urlOnly, elicitationForm: true }, revision)).toEqual({
        elicitation: { form: {}, url: {} },
      });
    },
  );

  test('is valid by the schema of every revision', () => {
    fc.assert(
      fc.property(profiles, fc.constantFrom(...LEGACY_REVISIONS), (profile, revision) => {
        const params = {
          protocolVersion: revision,
          capabilities: legacyCapabilities(profile, revision),
          clientInfo: { name: 'c', version: '1' },
        };
        const message = { jsonrpc: '2.0', id: 1, method: 'initialize', params };
        expect(schemaProblems(revision, 'to-server', message)).toEqual([]);
      }),
    );
  });
});

test('two profiles have one key only when they are the same', () => {
  fc.assert(
    fc.property(profiles, profiles, (one, other) => {
      const same =
        JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort());
      expect(profileKey(one) === profileKey(other)).toBe(same);
    }),
    { numRuns: 300 },
  );
});
