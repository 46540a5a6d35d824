/** What a later build may write, and this one cannot read. */
import { expect, test } from 'vitest';
import { openOutcome } from '../../../src/calls/sealed-outcome.ts';
import { openMessage } from '../../../src/fleet/relay/messages.ts';
import { readLease } from '../../../src/fleet/store/lease-record.ts';
import { readClaim } from '../../../src/fleet/store/redis-scripts.ts';
import { callId } from '../../../src/protocol/ids.ts';
import { openBytes, sealBytes } from '../../../src/seal/envelope.ts';
import type { SealPurpose } from '../../../src/seal/key-ring.ts';
import { AUDIENCE, testRing } from '../../fixtures/formats/format.ts';
import { fixture, FORMATS } from '../../fixtures/formats/formats.ts';
import { answerHello } from '../../fixtures/formats/relayed.ts';

/** The texts of a fixture whose content is JSON with a version, as a later build would write them. */
function later(name: string, purpose: SealPurpose): readonly string[] {
  return Object.values(fixture(name, 1).samples).map(({ text }) => {
    const at = text.lastIndexOf(' ') + 1;
    const key = at === 0 ? 'instance-1' : text.slice(0, at - 1);
    const place = { audience: AUDIENCE, key };
    const content = openBytes(testRing(purpose), place, text.slice(at), Infinity).toString();
    const raised = content.replace('{"v":1,', '{"v":2,');
    expect(raised).not.toBe(content);
    return `${text.slice(0, at)}${sealBytes(testRing(purpose), place, Buffer.from(raised))}`;
  });
}

const read = (name: string) => FORMATS.find((format) => format.name === name)!.read;

// Rule upgrade-3: Data of a later version is ignored if that costs no call, and an error otherwise.
test('what was kept of a session or of a server by a later build is not used', async () => {
  for (const text of later('home-session', 'home')) {
    expect(await read('home-session')(text, '')).toBeNull();
  }
  for (const text of later('greeting', 'greeting')) {
    expect(await read('greeting')(text, '')).toBeNull();
  }
});

// Rule upgrade-3.
test('a message of a later build is none', () => {
  const messages = later('relay-message', 'relay');
  const place = { audience: AUDIENCE, key: 'instance-1' };
  const opened = messages.map((text) => openMessage(testRing('relay'), place, text, 1_000_000));
  expect(opened).toEqual(messages.map(() => null));
});

// Rule upgrade-3.
test('a connection of a later build is refused: HTTP status 421', () => {
  const hello = { v: 2, from: 'instance-2', secret: Buffer.alloc(32, 2).toString('base64url') };
  const { agreed, head } = answerHello(hello);
  expect(agreed).toBeNull();
  expect(head).toMatch(/^HTTP\/1.1 421 /);
});

// Rule upgrade-3.
test('claims, leases and outcomes of a later build are not read', () => {
  const laterOf = (name: string) =>
    Object.values(fixture(name, 1).samples).map(({ text }) => text.replace('"v":1', '"v":2'));
  const seal = { ring: testRing('lease'), audience: AUDIENCE };
  expect(laterOf('claim').map(readClaim)).toEqual([null]);
  expect(laterOf('lease').map((text) => readLease(text, seal))).toEqual([null, null]);
  for (const { text } of Object.values(fixture('outcome', 1).samples)) {
    const bytes = Buffer.from(text, 'base64');
    bytes.writeUInt8(2, 0);
    const key = Buffer.alloc(32, 'outcome');
    expect(openOutcome(key, callId('Y2FsbCBvZiBmaXh0dXJlcw'), bytes)).toBeNull();
  }
});
