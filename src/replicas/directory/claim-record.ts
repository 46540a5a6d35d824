/**
 * A claim as it stands in Redis, and the scripts that change one. Each script touches keys of one
 * call only, which share a Cluster slot; a script is carried out whole or not at all.
 */
import { z } from 'zod';
import type { PointerOwner } from '../../seal/pointer.ts';

export interface ClaimRecord {
  readonly owner: PointerOwner;
  readonly epoch: number;
}

const text = z.string().min(1);
const claimRecord = z.strictObject({
  epoch: z.int().min(1),
  owner: z.strictObject({ id: text, boot: text, address: z.exactOptional(text) }),
});

/** The members of an owner in a fixed order: its text is compared, in here and in the scripts. */
export function writeOwner({ id, boot, address }: PointerOwner): string {
  return JSON.stringify(address === undefined ? { id, boot } : { id, boot, address });
}

/** In: an owner as `writeOwner` wrote it. Out: what `CLAIM` stores for it under this epoch. */
export function writeClaim(owner: string, epoch: number): string {
  return `{"epoch":${epoch},"owner":${owner}}`;
}

/** In: a stored value. Out: the claim, or `null` when it is none that this version knows. */
export function readClaim(value: string): ClaimRecord | null {
  let json: unknown;
  try {
    json = JSON.parse(value);
  } catch {
    return null;
  }
  const parsed = claimRecord.safeParse(json);
  if (!parsed.success) return null;
  const { epoch, owner } = parsed.data;
  const { id, boot, address } = owner;
  return { epoch, owner: address === undefined ? { id, boot } : { id, boot, address } };
}

/**
 * KEYS: claim, epoch. ARGV: the owner's text, ms to live, a claim's text that may be replaced ('' for
 * none). Out: {1, epoch} when the claim is the owner's now, or {0, text of the claim that stands}.
 * The epoch outlives its claim, so that the next claim gets a higher one.
 */
export const CLAIM = `
local owner, ttl, replaceable = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local standing = redis.call('GET', KEYS[1])
local epoch
if standing and (replaceable == '' or standing ~= replaceable) then
  local mine = string.match(standing, '^{"epoch":(%d+),"owner":')
  if not mine or standing ~= '{"epoch":' .. mine .. ',"owner":' .. owner .. '}' then
    return {0, standing}
  end
  epoch = tonumber(mine)
else
  epoch = redis.call('INCR', KEYS[2])
end
redis.call('SET', KEYS[1], '{"epoch":' .. string.format('%d', epoch) .. ',"owner":' .. owner .. '}', 'PX', ttl)
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('SET', KEYS[2], string.format('%d', epoch), 'PX', ttl * 2)
elseif redis.call('PTTL', KEYS[2]) < ttl * 2 then
  redis.call('PEXPIRE', KEYS[2], ttl * 2)
end
return {1, epoch}
`;

/** KEYS: claim. ARGV: the claim's text. Deletes the claim if it is still this one. */
export const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;
