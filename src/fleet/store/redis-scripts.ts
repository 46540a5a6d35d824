/**
 * What Redis keeps of an id, and the scripts that change it. A script is atomic, and its keys share a Cluster slot. `claim` is the
 * claim while there is one. `token` is the last claim, and outlives it: nobody else has claimed for as long as it is that of a process,
 * or gone. Before the bytes that are kept is a line: who has ended them, or nothing.
 */
import { z } from 'zod';
import type { HeldClaim } from '../../model/store.ts';
import type { PointerOwner } from '../../seal/pointer.ts';

const text = z.string().min(1);
/** Without an address, which only the lease of a replica says. */
const ownerRecord = z.strictObject({ id: text, instance: text });
const claimRecord = z.strictObject({
  v: z.literal(1),
  fencingToken: z.int().min(1),
  owner: ownerRecord,
});

/** Writes an owner with its members in a fixed order, since the texts are compared. */
export function writeOwner({ id, instance }: PointerOwner): string {
  return JSON.stringify({ id, instance });
}

/** Writes a claim as the script does. @param owner as `writeOwner` writes it */
export function writeClaim(fencingToken: number | string, owner: string): string {
  return `{"v":1,"fencingToken":${fencingToken},"owner":${owner}}`;
}

/** Reads a stored claim. @returns `null` if it is of a version that this build does not know */
export function readClaim(value: string): HeldClaim | null {
  try {
    const { v: _v, ...claim } = claimRecord.parse(JSON.parse(value));
    return claim;
  } catch {
    return null;
  }
}

/** The line before bytes that can change, and the beginning of the one before those that cannot. */
export const STATE_LINE = '\n';
export const END = 'end:';

/** Returns the bytes without the line before them. */
export function readBytes(value: Uint8Array): Uint8Array {
  return value.subarray(value.indexOf(0x0a) + 1);
}

/** Lua: the number of a claim, or `nil`. */
const NUMBER = `local function number(claim)
  return tonumber(string.match(claim, '^{"v":1,"fencingToken":(%d+),"owner":'))
end
`;

/**
 * Claims. KEYS: claim, token. ARGV: the owner's text, lifetime in ms, the text of a claim to replace ('' for none). Replies
 * {1, fencing token} if the owner has the claim now, else {0, text of the other claim}.
 */
export const CLAIM = `${NUMBER}
local owner, ttl, replaceable = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local function claimOf(fencingToken)
  return '{"v":1,"fencingToken":' .. string.format('%d', fencingToken) .. ',"owner":' .. owner .. '}'
end
local existing = redis.call('GET', KEYS[1])
local fencingToken = existing and number(existing)
if not existing or (replaceable ~= '' and existing == replaceable) then
  local last = redis.call('GET', KEYS[2]) or existing
  fencingToken = last and number(last) or 0
  if last and not number(last) then return redis.error_reply('ERR the fencing token is not an integer') end
  fencingToken = fencingToken + 1
elseif not fencingToken or existing ~= claimOf(fencingToken) then
  return {0, existing}
end
redis.call('SET', KEYS[1], claimOf(fencingToken), 'PX', ttl)
local longest = math.max(ttl * 2, redis.call('PTTL', KEYS[2]))
redis.call('SET', KEYS[2], claimOf(fencingToken), 'PX', longest)
return {1, fencingToken}
`;

/**
 * Deletes a claim of an owner. KEYS: claim, and the token if nobody is to know that there was one. ARGV: the owner's text, the fencing token of the claim ('' for any: the reply that said it
 * was lost).
 */
export const RELEASE = `${NUMBER}
local owner, fencingToken = ARGV[1], ARGV[2]
local existing = redis.call('GET', KEYS[1])
if not existing then return 0 end
if fencingToken == '' then fencingToken = tostring(number(existing) or '') end
if existing ~= '{"v":1,"fencingToken":' .. fencingToken .. ',"owner":' .. owner .. '}' then return 0 end
if KEYS[2] and redis.call('GET', KEYS[2]) == existing then redis.call('DEL', KEYS[2]) end
return redis.call('DEL', KEYS[1])
`;

/**
 * Keeps bytes that can change, or deletes what is kept. KEYS: token, bytes. ARGV: the text of the claim ('' for none), lifetime in ms,
 * the line and the bytes ('' to delete). Replies 1; 0 if somebody else has claimed, 2 if the bytes have ended.
 */
export const STATE = `${NUMBER}
local last = redis.call('GET', KEYS[1])
if last and last ~= ARGV[1] then
  if not number(last) then return redis.error_reply('ERR the fencing token is not an integer') end
  return 0
end
if ARGV[3] == '' then
  redis.call('DEL', KEYS[2])
  return 1
end
if redis.call('GETRANGE', KEYS[2], 0, 3) == '${END}' then return 2 end
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[2])
return 1
`;

/** Keeps an end. KEYS: bytes. ARGV: its line, lifetime in ms, the line and the bytes. Replies 1; 2 if somebody else has kept an end. */
export const KEEP_END = `
local existing = redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1)
if string.sub(existing, 1, 4) == '${END}' and existing ~= ARGV[1] then return 2 end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
return 1
`;
