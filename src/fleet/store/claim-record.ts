/**
 * The record of a claim in Redis, and the scripts that change it. A script is atomic, and touches the keys of one
 * call only, which share a Cluster slot.
 */
import { z } from 'zod';
import type { PointerOwner } from '../../seal/pointer.ts';

export interface ClaimRecord {
  readonly owner: PointerOwner;
  readonly fencingToken: number;
}

const text = z.string().min(1);
/** Without an address, which only the lease of a replica says. */
const ownerRecord = z.strictObject({ id: text, instance: text });
const claimRecord = z.strictObject({ fencingToken: z.int().min(1), owner: ownerRecord });

/** Writes an owner with its members in a fixed order, since the texts are compared. */
export function writeOwner({ id, instance }: PointerOwner): string {
  return JSON.stringify({ id, instance });
}

/** Reads a stored claim. @returns `null` if this version does not know its form */
export function readClaim(value: string): ClaimRecord | null {
  try {
    return claimRecord.safeParse(JSON.parse(value)).data ?? null;
  } catch {
    return null;
  }
}

/**
 * Claims a call. KEYS: claim, fencing token. ARGV: the owner's text, lifetime in ms, the text of a claim to replace ('' for
 * none). Replies {1, fencing token} if the owner has the claim now, else {0, text of the other claim}. The fencing token outlives
 * its claim, so that the next claim gets a higher one.
 */
export const CLAIM = `
local owner, ttl, replaceable = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local existing = redis.call('GET', KEYS[1])
local fencingToken
if existing and (replaceable == '' or existing ~= replaceable) then
  local mine = string.match(existing, '^{"fencingToken":(%d+),"owner":')
  if not mine or existing ~= '{"fencingToken":' .. mine .. ',"owner":' .. owner .. '}' then
    return {0, existing}
  end
  fencingToken = tonumber(mine)
else
  fencingToken = redis.call('INCR', KEYS[2])
end
redis.call('SET', KEYS[1], '{"fencingToken":' .. string.format('%d', fencingToken) .. ',"owner":' .. owner .. '}', 'PX', ttl)
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('SET', KEYS[2], string.format('%d', fencingToken), 'PX', ttl * 2)
elseif redis.call('PTTL', KEYS[2]) < ttl * 2 then
  redis.call('PEXPIRE', KEYS[2], ttl * 2)
end
return {1, fencingToken}
`;

/**
 * Deletes a claim of an owner. KEYS: claim. ARGV: the owner's text, the fencing token of the claim ('' for any: the reply that said it
 * was lost).
 */
export const RELEASE = `
local owner, fencingToken = ARGV[1], ARGV[2]
local existing = redis.call('GET', KEYS[1])
if not existing then return 0 end
if fencingToken == '' then fencingToken = string.match(existing, '^{"fencingToken":(%d+),"owner":') or '' end
if existing ~= '{"fencingToken":' .. fencingToken .. ',"owner":' .. owner .. '}' then return 0 end
return redis.call('DEL', KEYS[1])
`;
