-- Extend the names that an owner holds to another TTL, for another process that takes over its
-- lease. Unlike a renewal, this puts nothing back.
--
-- KEYS      the names of the locks
-- ARGV[1]   owner
-- ARGV[2]   TTL in ms
-- ARGV[3]   MaxTTL of the client in ms
-- ARGV[4]   MaxClockSkew of the client in ms
-- ARGV[5]   token of the lease, in us
-- Reply     1                            extended
--           0                            the owner does not have all names; nothing was changed
--           {name, owner, pttl, token}   held by another owner with this token, see token_of; or by
--                                        this one, with another token, put back late (see put),
--                                        or from before a loss of memory. Nothing was changed
--           {name, '', 0, 0}             the owner was forced off; nothing was changed
--           and the replies of guard; nothing was changed
--
-- The reply 1 proves that no later owner has had the names there since this owner got them.

local owner, ttl, token = ARGV[1], tonumber(ARGV[2]), ARGV[5]
local _, differs, recovering, recovered = guard(ARGV[3], ARGV[4])
local refused = differs or recovering
if refused then
  return refused
end
if ttl > tonumber(ARGV[3]) then
  return {'SETTINGS', tonumber(ARGV[3]), tonumber(ARGV[4])}
end
-- The node may have forgotten a release, and later owners, if it has had the lock since before its
-- recovery. A token is at most MaxClockSkew ahead of the clock when it is taken.
local old = tonumber(token) <= recovered + ARGV[4] * 1000
local absent, denial, doubtful = false, nil, nil
for _, name in ipairs(KEYS) do
  local holder = redis.call('HKEYS', name)[1]
  if redis.call('EXISTS', key('tombstone', name) .. ':' .. owner) == 1 then
    return {name, '', 0, 0}
  elseif not holder then
    absent = true
  elseif holder ~= owner then
    denial = denial or {name, holder, redis.call('PTTL', name), token_of(name, holder)}
  elseif old or redis.call('HGET', name, owner) ~= token then
    doubtful = doubtful or {name, holder, redis.call('PTTL', name), token_of(name, holder)}
  end
end
if denial or absent or doubtful then
  return denial or doubtful or 0
end
for _, name in ipairs(KEYS) do
  if redis.call('PTTL', name) < ttl then
    redis.call('PEXPIRE', name, ARGV[2])
  end
end
return 1
