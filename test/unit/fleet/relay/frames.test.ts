/** Frames as bytes: what is read is what was written, and nothing else opens. */
import { createSecretKey } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  FrameReader,
  FrameSealer,
  type StampedFrame,
} from '../../../../src/fleet/relay/direct/frames.ts';

const KEY = createSecretKey(Buffer.alloc(32, 1));
const FRAME: StampedFrame = {
  ...{ kind: 'piece', id: 'id', number: 7, text: 'a €\u{1f600} secret' },
  ...{ writtenAt: 123_456_789_012, readAt: 5 },
};

/** A reader that has seen the empty frame, and what its other side seals. */
function pair() {
  const [sealer, reader] = [new FrameSealer(KEY), new FrameReader(KEY)];
  expect([...reader.read(sealer.seal(null))]).toEqual([null]);
  return { sealer, reader };
}

// Rule relay-8.
describe('a frame', () => {
  test.each([1, 3, 7, 10_000])('is read as it was written, in chunks of %d bytes', (size) => {
    const { sealer, reader } = pair();
    const frames = [FRAME, { ...FRAME, text: '' }, { ...FRAME, text: 'x'.repeat(1_000) }];
    const bytes = Buffer.concat(frames.map((frame) => sealer.seal(frame)));
    expect(bytes.includes('secret')).toBe(false);
    const read: (StampedFrame | null)[] = [];
    for (let at = 0; at < bytes.length; at += size) {
      read.push(...reader.read(bytes.subarray(at, at + size)));
    }
    expect(read).toEqual(frames);
  });

  test('does not open twice, in another order, or on another connection', () => {
    const { sealer, reader } = pair();
    const [first, second] = [sealer.seal(FRAME), sealer.seal(FRAME)];
    expect(() => [...new FrameReader(createSecretKey(Buffer.alloc(32, 2))).read(first)]).toThrow();
    const other = pair();
    other.sealer.seal(FRAME);
    expect(() => [...other.reader.read(other.sealer.seal(FRAME))]).toThrow();
    expect([...reader.read(first)]).toEqual([FRAME]);
    expect(() => [...reader.read(first)]).toThrow();
    expect(second).not.toEqual(first);
  });

  test('does not open with any byte changed', () => {
    const length = new FrameSealer(KEY).seal(FRAME).length;
    for (let at = 0; at < length; at += 1) {
      const { sealer, reader } = pair();
      const bytes = sealer.seal(FRAME);
      bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
      // A length that grew waits for more bytes; those that follow do not open either.
      expect(() => [...reader.read(Buffer.concat([bytes, Buffer.alloc(600_000)]))]).toThrow();
    }
  });

  test('of more than 16 bytes is refused before the other side has shown the key', () => {
    const reader = new FrameReader(KEY);
    expect(() => [...reader.read(Buffer.from([0, 0, 0, 17]))]).toThrow('length');
  });

  test('that is longer than a piece can be is refused by its length', () => {
    const { reader } = pair();
    expect(() => [...reader.read(Buffer.from([0, 8, 0, 0]))]).toThrow('length');
  });
});
