/** The resume point of a call that runs as a task, in a pointer. */
import { describe, expect, test } from 'vitest';
import { sessionId, upstreamRequestId } from '../../../src/protocol/ids.ts';
import { readPointer, writePointer } from '../../../src/seal/pointer-claims.ts';
import type { ResumePoint } from '../../../src/seal/pointer.ts';
import { NOW_SECONDS, pointer as unsealed } from './sealing-fixture.ts';

const session = {
  sessionId: sessionId('s'),
  revision: '2025-11-25',
  upstreamId: upstreamRequestId(7),
} as const;
const progressToken = upstreamRequestId('mrtr-token');

function pointerTo(resume: ResumePoint) {
  const keys = { asked: 0, counts: {} };
  const continuation = { startedAtMs: 0, questions: [], keys, resume, replay: null };
  return { ...unsealed, audience: 'fleet', issuedAtSeconds: NOW_SECONDS, continuation };
}

// Rule tasks-9.
describe('a resume point', () => {
  test.each<[string, ResumePoint]>([
    ['of an ordinary call', { ...session, lastEventId: 'e1', task: null }],
    [
      'of a task that is being created',
      { ...session, lastEventId: 'e1', task: { taskId: null, progressToken } },
    ],
    [
      'of a task whose stream has events',
      { ...session, lastEventId: 'e1', task: { taskId: 'task-1', progressToken } },
    ],
    [
      'of a task whose stream has none',
      { ...session, lastEventId: null, task: { taskId: 'task-1', progressToken } },
    ],
  ])('%s is read as it was written', (_what, resume) => {
    const written = writePointer(pointerTo(resume));
    expect(readPointer(written?.claims)?.continuation?.resume).toEqual(resume);
  });

  test('of a later version is refused', () => {
    const written = writePointer(pointerTo({ ...session, lastEventId: 'e1', task: null }));
    expect(readPointer({ ...written?.claims, v: 4 })).toBeNull();
  });
});
