import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ClientProfile } from '../../../../src/protocol/translate/client-profile.ts';
import {
  translateInputResponse,
  translateServerRequest,
} from '../../../../src/protocol/translate/input-request.ts';
import type { JsonObject } from '../../../../src/protocol/json.ts';
import type { LegacyRevision } from '../../../../src/protocol/meta.ts';
import { contentFor } from '../../../fixtures/arbitrary/elicitation.ts';
import { arbitraryJson, objectsOf } from '../../../fixtures/arbitrary/json.ts';
import {
  formElicitationParams,
  revision,
  rootsAnswer,
  rootsParams,
  samplingAnswer,
  samplingParams,
  urlElicitationParams,
} from '../../../fixtures/arbitrary/legacy-messages.ts';
import { schemaProblems } from '../../../fixtures/wire/official-schema.ts';

interface Asked {
  readonly method: string;
  readonly params: JsonObject;
  readonly revision: LegacyRevision;
}

const profile: fc.Arbitrary<ClientProfile> = fc.record({
  elicitationForm: fc.boolean(),
  elicitationUrl: fc.boolean(),
  sampling: fc.boolean(),
  samplingTools: fc.boolean(),
  samplingContext: fc.boolean(),
  roots: fc.boolean(),
  extensions: fc.constant({}),
});
const ALL: ClientProfile = {
  elicitationForm: true,
  elicitationUrl: true,
  sampling: true,
  samplingTools: true,
  samplingContext: true,
  roots: true,
  extensions: {},
};

const asked: fc.Arbitrary<Asked> = fc.oneof(
  fc.constantFrom('2025-06-18' as const, '2025-11-25' as const).chain((since) =>
    formElicitationParams(since).map((params) => ({
      method: 'elicitation/create',
      params,
      revision: since,
    })),
  ),
  urlElicitationParams.map((params) => ({
    method: 'elicitation/create',
    params,
    revision: '2025-11-25' as const,
  })),
  revision.chain((since) =>
    samplingParams(since).map((params) => ({
      method: 'sampling/createMessage',
      params,
      revision: since,
    })),
  ),
  revision.chain((since) =>
    rootsParams.map((params) => ({ method: 'roots/list', params, revision: since })),
  ),
);

function inputRequired(request: JsonObject): JsonObject {
  const result = { resultType: 'input_required', inputRequests: { key: request } };
  return { jsonrpc: '2.0', id: 1, result };
}

describe('whatever a legacy server asks', () => {
  test('is a request that its own revision allows, in these tests', () => {
    fc.assert(
      fc.property(asked, ({ method, params, revision }) => {
        const message = { jsonrpc: '2.0', id: 0, method, params };
        expect(schemaProblems(revision, 'to-client', message)).toEqual([]);
      }),
    );
  });

  // Rule shown-2.
  test('reaches the client as a valid input request, and only when it declared that it can answer', () => {
    fc.assert(
      fc.property(asked, profile, ({ method, params, revision }, declared) => {
        const translated = translateServerRequest(method, params, declared, revision);
        if (translated.type === 'refuse') {
          expect(translated.requiredCapabilities).not.toBeNull();
          return;
        }
        const message = inputRequired(translated.request);
        expect(schemaProblems('2026-07-28', 'to-client', message, 'tools/call')).toEqual([]);
        const declaredFor = {
          'elicitation-form': declared.elicitationForm,
          'elicitation-url': declared.elicitationUrl,
          'openai-form': false,
          sampling: declared.sampling,
          roots: declared.roots,
        };
        expect(declaredFor[translated.back.kind]).toBe(true);
        if (!declared.samplingTools) expect(translated.request.params).not.toHaveProperty('tools');
      }),
      { numRuns: 300 },
    );
  });

  // Rule shown-2.
  test('is shown whole to a client that declared everything, unknown members included', () => {
    fc.assert(
      fc.property(asked, ({ method, params, revision }) => {
        const before = structuredClone(params);
        const translated = translateServerRequest(method, params, ALL, revision);
        expect(params).toEqual(before);
        if (translated.type === 'refuse') throw new Error(translated.error.message);
        const { task: _task, elicitationId: _id, _meta, ...expected } = params;
        if (translated.back.kind === 'elicitation-form') expected['mode'] = 'form';
        if (Array.isArray(expected['tools'])) {
          expected['tools'] = (expected['tools'] as JsonObject[]).map(
            ({ execution: _execution, ...tool }) => tool,
          );
        }
        const kept = Object.keys((_meta ?? {}) as JsonObject).length > 0 ? { _meta } : {};
        const { requestedSchema: shown, ...rest } = translated.request.params;
        const { requestedSchema, ...wanted } = { ...expected, ...kept } as JsonObject;
        expect(rest).toEqual(wanted);
        expect((shown as JsonObject | undefined)?.['properties']).toEqual(
          (requestedSchema as JsonObject | undefined)?.['properties'],
        );
      }),
    );
  });
});

describe('whatever a client answers', () => {
  test('to a form is a result that the server’s revision allows', () => {
    const answered = fc.constantFrom('2025-06-18' as const, '2025-11-25' as const).chain((since) =>
      formElicitationParams(since).chain((params) => {
        const translated = translateServerRequest('elicitation/create', params, ALL, since);
        if (translated.type === 'refuse') throw new Error(translated.error.message);
        const { requestedSchema } = translated.request.params;
        return contentFor(requestedSchema as JsonObject).map((content) => ({
          since,
          back: translated.back,
          content,
        }));
      }),
    );
    fc.assert(
      fc.property(answered, ({ since, back, content }) => {
        const reading = translateInputResponse(back, { action: 'accept', content });
        if (reading.type !== 'respond') throw new Error(reading.problem);
        expect(reading.reply).toEqual({ result: { action: 'accept', content } });
        const message = { jsonrpc: '2.0', id: 'q', ...reading.reply };
        expect(schemaProblems(since, 'to-server', message, 'elicitation/create')).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });

  test('to a sampling request is a message that the server’s revision allows', () => {
    const answered = revision.chain((since) =>
      fc.record({
        since: fc.constant(since),
        params: samplingParams(since),
        answer: samplingAnswer,
      }),
    );
    fc.assert(
      fc.property(answered, ({ since, params, answer }) => {
        const translated = translateServerRequest('sampling/createMessage', params, ALL, since);
        if (translated.type === 'refuse') throw new Error(translated.error.message);
        const reading = translateInputResponse(translated.back, answer);
        if (reading.type !== 'respond') throw new Error(reading.problem);
        const message = { jsonrpc: '2.0', id: 0, ...reading.reply };
        expect(schemaProblems(since, 'to-server', message, 'sampling/createMessage')).toEqual([]);
        if ('error' in reading.reply) return;
        const { content: _given, _meta: _m, ...rest } = answer;
        expect(reading.reply.result).toMatchObject(rest);
      }),
      { numRuns: 300 },
    );
  });

  test('to a roots request goes back as it is', () => {
    fc.assert(
      fc.property(rootsAnswer, revision, (answer, since) => {
        const reading = translateInputResponse({ kind: 'roots' }, answer);
        expect(reading).toEqual({ type: 'respond', reply: { result: answer } });
        const message = { jsonrpc: '2.0', id: 0, result: answer };
        expect(schemaProblems(since, 'to-server', message, 'roots/list')).toEqual([]);
      }),
    );
  });
});

describe('no malformed input makes a translation throw', () => {
  const nonsense = objectsOf([
    ...['mode', 'form', 'url', 'message', 'requestedSchema', 'properties', 'type', 'elicitationId'],
    ...['messages', 'tools', 'toolChoice', 'includeContext', 'content', 'role', 'user', 'model'],
    ...['action', 'accept', 'roots', 'uri', 'file:///a', 'https://a.example', '_meta', 'task'],
    ...['toString', 'valueOf', 'constructor', 'text', 'string', 'enum', '$ref', '$defs'],
  ]);

  test('on the way to the client: it is shown or refused', () => {
    const methods = fc.constantFrom('elicitation/create', 'sampling/createMessage', 'roots/list');
    fc.assert(
      fc.property(methods, nonsense, profile, revision, (method, params, declared, since) => {
        const translated = translateServerRequest(method, params, declared, since);
        expect(['surface', 'refuse']).toContain(translated.type);
      }),
      { numRuns: 1000 },
    );
  });

  test('on the way to the server: it is sent or named', () => {
    const backs = fc.constantFrom(
      { kind: 'elicitation-form' as const, inverse: new Map() },
      { kind: 'elicitation-url' as const },
      { kind: 'sampling' as const, blocks: 'many' as const },
      { kind: 'sampling' as const, blocks: 'one' as const },
      { kind: 'sampling' as const, blocks: 'oneWithoutAudio' as const },
      { kind: 'roots' as const },
    );
    fc.assert(
      fc.property(backs, fc.oneof(nonsense, arbitraryJson), (back, answer) => {
        const reading = translateInputResponse(back, answer);
        if (reading.type === 'ill-formed') expect(reading.problem).not.toBe('');
        else expect(Object.keys(reading.reply)).toHaveLength(1);
      }),
      { numRuns: 1000 },
    );
  });
});
