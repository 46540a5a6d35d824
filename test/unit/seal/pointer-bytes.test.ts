/** The questions inside a pointer: compressed, bounded on the way back, and read in either place. */
import { deflateRawSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  inputKey,
  serverRequestId,
  sessionId,
  upstreamRequestId,
} from '../../../src/protocol/ids.ts';
import type { Continuation } from '../../../src/seal/pointer.ts';
import { encodePointer } from '../../../src/seal/pointer-bytes.ts';
import { UnsealablePointer, type UnsealedPointer } from '../../../src/seal/seal.ts';
import { forge } from './tokens/forge.ts';
import { expectRefused, NOW_SECONDS, pointer, request, sealer } from './sealing-fixture.ts';

const MIB = 1024 * 1024;

function question(index: number, message: string): Continuation['questions'][number] {
  return {
    key: inputKey(`elicitation-${index}`),
    id: serverRequestId(`question-${index}`),
    request: { method: 'elicitation/create', params: { mode: 'form', message } },
    back: { kind: 'elicitation-form', inverse: new Map() },
  };
}

function asking(...messages: readonly string[]): UnsealedPointer {
  return {
    ...pointer,
    continuation: {
      startedAtMs: NOW_SECONDS * 1000,
      questions: messages.map((message, index) => question(index, message)),
      keys: { asked: messages.length, counts: { elicitation: messages.length } },
      resume: null,
      replay: null,
    },
  };
}

/** The claims of a short pointer, with the requests among them. */
function shortClaims(...messages: readonly string[]): object {
  return { ...claimsOf(messages), r: requestsOf(...messages) };
}

function claimsOf(messages: readonly string[]) {
  const { route, method, target, digest, principal } = request;
  return {
    ...{ v: 1, aud: 'fleet-a', rt: route, c: pointer.callId, n: 1 },
    ...{ o: { id: 'replica-1', instance: 'b7f0' }, iat: NOW_SECONDS, exp: NOW_SECONDS + 60 },
    ...{ p: principal, m: method, t: target, d: digest },
    cont: {
      b: NOW_SECONDS * 1000,
      q: messages.map((_message, index) => ({
        k: `elicitation-${index}`,
        i: `question-${index}`,
        b: { kind: 'elicitation-form', inverse: [] },
      })),
      n: { a: messages.length, c: { elicitation: messages.length } },
      s: null,
      a: null,
    },
  };
}

/** A token with these bytes after the line feed. */
function withRequests(claims: object, bytes: Uint8Array): string {
  return forge({ content: Buffer.concat([Buffer.from(`${JSON.stringify(claims)}\n`), bytes]) });
}

const deflated = (value: unknown) => deflateRawSync(JSON.stringify(value), { windowBits: 12 });
const requestsOf = (...messages: readonly string[]) =>
  messages.map((message, index) => question(index, message).request);

// Rule concurrent-5.
test.each([{}, { beside: [upstreamRequestId(8), upstreamRequestId('nine')] }])(
  'where a call can be resumed comes back as it was, with %j',
  (more) => {
    const { seal, open } = sealer();
    const asked = asking('Which name?');
    const resume = {
      sessionId: sessionId('s'),
      revision: '2025-11-25' as const,
      upstreamId: upstreamRequestId(7),
      lastEventId: 'e1',
      task: null,
      ...more,
    };
    const continuation = { ...asked.continuation, resume } as Continuation;
    expect(open(seal({ ...asked, continuation }), request).continuation).toEqual(continuation);
  },
);

test('the trace of the first request comes back, and is absent without traces', () => {
  const { seal, open } = sealer();
  const firstTrace = `00-${'1'.repeat(32)}-${'a'.repeat(16)}-01`;
  expect(open(seal({ ...pointer, firstTrace }), request).firstTrace).toBe(firstTrace);
  expect(open(seal(pointer), request)).not.toHaveProperty('firstTrace');
});

describe('the questions of a pointer', () => {
  test('come back as they were, whatever they say', () => {
    const { seal, open } = sealer({ maxTokenBytes: 64 * 1024 });
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'binary', maxLength: 200 }), { maxLength: 5 }),
        (messages) => {
          const asked = asking(...messages.map((message) => message.toWellFormed()));
          expect(open(seal(asked), request).continuation).toEqual(asked.continuation);
        },
      ),
    );
  });

  test('take less than half of their size when they repeat themselves, as forms do', () => {
    const { seal } = sealer({ maxTokenBytes: 64 * 1024 });
    const field = { type: 'string', title: 'A field', description: 'What is to be written here' };
    const form = JSON.stringify(Array.from({ length: 20 }, (_, index) => ({ [index]: field })));
    const empty = seal(asking('')).length;
    expect(seal(asking(form)).length - empty).toBeLessThan(form.length / 2);
  });

  test('stay as they are in a short pointer, which takes no time to compress', () => {
    const bytes = encodePointer({ ...asking('Which name?'), audience: 'a', issuedAtSeconds: 1 });
    expect(JSON.parse(bytes.toString())).toMatchObject({
      v: 1,
      r: [{ params: { message: 'Which name?' } }],
    });
    const long = encodePointer({
      ...asking('Which name?'.repeat(200)),
      ...{ audience: 'a', issuedAtSeconds: 1 },
    });
    expect(long.length).toBeLessThan(1024);
  });

  test('are read from claims that hold them', () => {
    const { open } = sealer();
    const opened = open(forge({ claims: shortClaims('Which name?', 'Which city?') }), request);
    expect(opened.continuation).toEqual(asking('Which name?', 'Which city?').continuation);
  });

  test('of more than 1 MiB are not sealed', () => {
    const { seal } = sealer({ maxTokenBytes: MIB });
    const sealing = () => seal(asking('x'.repeat(MIB)));
    expect(sealing).toThrow(UnsealablePointer);
    expect(sealing).toThrow(expect.objectContaining({ code: 'pointer_too_large' }));
  });
});

describe('a pointer is refused, even under a right tag,', () => {
  const claims = claimsOf(['Which name?']);

  test.each([
    { when: 'its requests are missing', token: () => forge({ claims }) },
    {
      when: 'it has fewer requests than questions',
      token: () => withRequests(claimsOf(['a', 'b']), deflated(requestsOf('a'))),
    },
    {
      when: 'it has more requests than questions',
      token: () => withRequests(claims, deflated(requestsOf('a', 'b'))),
    },
    {
      when: 'its requests stand both among its claims and beside them',
      token: () => withRequests(shortClaims('a'), deflated(requestsOf('a'))),
    },
    { when: 'its requests are no list', token: () => withRequests(claims, deflated('a')) },
    {
      when: 'a request has no method',
      token: () => withRequests(claims, deflated([{ params: {} }])),
    },
    { when: 'its requests are no JSON', token: () => withRequests(claims, deflateRawSync('{')) },
    {
      when: 'its requests are not compressed',
      token: () => withRequests(claims, Buffer.from(JSON.stringify(requestsOf('a')))),
    },
    {
      when: 'its requests inflate to more than 1 MiB',
      token: () => withRequests(claims, deflated(requestsOf('x'.repeat(MIB)))),
    },
  ])('when $when', ({ token }) => {
    const { open } = sealer({ maxTokenBytes: 64 * 1024 });
    expectRefused(() => open(token(), request), 'claims');
  });
});
