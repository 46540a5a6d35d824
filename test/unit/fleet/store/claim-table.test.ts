import { describe, expect, test } from 'vitest';
import { ClaimTable, RemoteClaims } from '../../../../src/fleet/store/claim-table.ts';
import { DirectoryUnavailable } from '../../../../src/model/directory.ts';
import { homeId } from '../../../../src/protocol/ids.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

const ONE = { id: 'one', instance: 'one' };
const TWO = { id: 'two', instance: 'two' };
const TTL_MS = 60_000;
const HOME = homeId('home:ada');

function stage() {
  const clock = new ManualClock();
  const ended = new Set<string>();
  const table = new ClaimTable(clock, (instance) => ended.has(instance));
  const claim = (worker: typeof ONE) =>
    table.answer({ type: 'claim', id: HOME, ttlMs: TTL_MS }, worker);
  return { clock, table, claim, ended };
}

describe('a claim', () => {
  test('is held until it is released, and is renewed with the same fencing token', () => {
    const { table, claim } = stage();
    expect(claim(ONE)).toEqual({ type: 'claimed', fencingToken: 1 });
    expect(claim(ONE)).toEqual({ type: 'claimed', fencingToken: 1 });
    expect(claim(TWO)).toEqual({ type: 'held', by: ONE });
    table.answer({ type: 'release', id: HOME, fencingToken: 1 }, ONE);
    expect(claim(TWO)).toEqual({ type: 'claimed', fencingToken: 2 });
  });

  test('is not released by another worker, nor with an earlier fencing token', () => {
    const { table, claim } = stage();
    claim(ONE);
    table.answer({ type: 'release', id: HOME, fencingToken: 1 }, TWO);
    table.answer({ type: 'release', id: HOME, fencingToken: 0 }, ONE);
    expect(claim(TWO)).toEqual({ type: 'held', by: ONE });
  });

  test('ends with its worker, and what was kept stays for the next one', () => {
    const { table, claim, ended } = stage();
    claim(ONE);
    table.answer({ type: 'keep', id: HOME, text: 'sealed', ttlMs: TTL_MS }, ONE);
    ended.add('one');
    expect(claim(TWO)).toEqual({ type: 'claimed', fencingToken: 2 });
    expect(table.answer({ type: 'kept', id: HOME }, TWO)).toBe('sealed');
  });

  test('expires unless it is renewed', () => {
    const { clock, claim } = stage();
    claim(ONE);
    clock.advance(TTL_MS - 1);
    expect(claim(TWO)).toEqual({ type: 'held', by: ONE });
    clock.advance(1);
    expect(claim(TWO)).toEqual({ type: 'claimed', fencingToken: 1 });
  });
});

test('a primary that does not respond counts as a store that is unreachable', async () => {
  const clock = new ManualClock();
  const claims = new RemoteClaims(clock, () => {});
  const claim = claims.claim(HOME, TTL_MS);
  clock.advance(4_000);
  await expect(claim).rejects.toThrow(DirectoryUnavailable);
});

test('bytes come back as they were kept, until they are forgotten', async () => {
  const clock = new ManualClock();
  const table = new ClaimTable(clock, () => false);
  const claims: RemoteClaims = new RemoteClaims(clock, (request, claim) => {
    claims.receive(request, table.answer(claim, ONE));
  });
  const bytes = Buffer.from([0, 127, 128, 255]);
  await claims.keep(HOME, bytes, TTL_MS);
  expect(Buffer.from((await claims.kept(HOME)) ?? [])).toEqual(bytes);
  await claims.forget(HOME);
  expect(await claims.kept(HOME)).toBeNull();
});
