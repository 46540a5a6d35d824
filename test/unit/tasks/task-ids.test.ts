/** The ids of tasks: for one principal, short, and with the address of their replica where there is no store. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { randomId } from '../../../src/lib/crypto.ts';
import { generateKey } from '../../../src/seal/key-ring.ts';
import { SessionSeal } from '../../../src/seal/session-seal.ts';
import { TaskIds } from '../../../src/tasks/task-ids.ts';

const KEY = generateKey();
const sealWith = (kid: string) =>
  new SessionSeal({ keys: { all: [{ ...KEY, kid }] }, audience: 'fleet', route: 'mcp' });
const ownerAt = (address: string) => {
  const instance = randomId();
  return { id: 'one', instance, address };
};
const ADA = { principal: 'ada' };

// Rule owned-1.
test('an id is short, and says which replica has the task', () => {
  const address = fc
    .tuple(fc.ipV4(), fc.integer({ min: 1, max: 65_535 }))
    .map(([host, port]) => `http://${host}:${port}`);
  const kid = fc.stringMatching(/^[A-Za-z0-9_-]{1,64}$/);
  fc.assert(
    fc.property(address, kid, (at, name) => {
      const owner = ownerAt(at);
      const ids = new TaskIds(sealWith(name), owner);
      const home = TaskIds.homeOf(randomId());
      const id = ids.idOf(home, ADA) ?? '';
      expect(id.length).toBeLessThanOrEqual(200);
      expect(id).toMatch(/^[A-Za-z0-9_.-]+$/);
      const other = new TaskIds(sealWith(name), ownerAt('http://10.0.0.9:1'));
      expect(other.nameOf(id, ADA)).toEqual({ home, owner: { ...owner, id: owner.instance } });
    }),
  );
});

test('an address for which an id would be too long has none', () => {
  const ids = new TaskIds(sealWith('k'), ownerAt(`http://${'long.'.repeat(30)}example.com:8081`));
  expect(ids.idOf(TaskIds.homeOf(randomId()), ADA)).toBeNull();
  expect(ids.fit).toBe(false);
  expect(new TaskIds(sealWith('k'), ownerAt('http://10.0.0.1:8081')).fit).toBe(true);
});

// Rule promoted-12.
test('the id of another principal, and any other text, name no task', () => {
  for (const owner of [null, ownerAt('http://10.0.0.1:8081')]) {
    const ids = new TaskIds(sealWith('k'), owner);
    const home = TaskIds.homeOf(randomId());
    const id = ids.idOf(home, ADA) ?? '';
    expect(ids.nameOf(id, ADA)?.home).toBe(home);
    expect(ids.nameOf(id, { principal: 'eve' })).toBeNull();
    expect(ids.nameOf(id, { principal: null })).toBeNull();
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(ids.nameOf(text, ADA)).toBeNull();
      }),
    );
  }
});

test('an id without an address is none where ids have one', () => {
  const id = new TaskIds(sealWith('k'), null).idOf(TaskIds.homeOf(randomId()), ADA) ?? '';
  expect(new TaskIds(sealWith('k'), ownerAt('http://10.0.0.1:1')).nameOf(id, ADA)).toBeNull();
});
