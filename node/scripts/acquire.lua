-- Take every name for one owner, or none, and its fencing token.
--
-- KEYS      the names of the locks
-- ARGV[1]   owner
-- ARGV[2]   TTL in ms
-- ARGV[3]   MaxTTL of the client in ms
-- ARGV[4]   MaxClockSkew of the client in ms
-- ARGV[5]   proposed token, in us of the client's clock
-- Reply     1                           granted, and the token was taken
--           {fence}                     granted; the token was not taken: fence is as large
--           {name, owner, pttl, fence}  held by another: the one that lives longest
--           {'CLOCK', now}              the token is too far from the node's clock, in us
--           and those of guard
--
-- A lock is a hash with one field, its owner: the layout of Redisson's RLock. All is
-- read before the first write, so a key of another type fails the whole script early,
-- and each HSET is followed directly by its PEXPIRE: no lock is ever without a TTL.
--
-- A token must be younger than MaxTTL, and no further ahead of the node's clock than
-- MaxClockSkew. A fence lives until the node's clock is MaxTTL + MaxClockSkew past it,
-- which is also how long a recovery lasts. So whatever a node has forgotten, it only
-- takes tokens that are larger than all those it ever took.

local owner, ttl, token = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5])
local max_ttl, max_skew = tonumber(ARGV[3]), tonumber(ARGV[4])

local now, differs, recovering = guard(ARGV[3], ARGV[4])
if differs or recovering then
  return differs or recovering
end
if ttl > max_ttl then
  return {'SETTINGS', max_ttl, max_skew}
end
if token > now + max_skew * 1000 or token <= now - max_ttl * 1000 then
  return {'CLOCK', now}
end

local denial
local fence, low = 0, {}
for _, name in ipairs(KEYS) do
  local holder = redis.call('HKEYS', name)[1]
  local seen = tonumber(redis.call('GET', key('fence', name)) or 0)
  if holder and holder ~= owner then
    local left = redis.call('PTTL', name)
    if not denial or left == -1 or (denial[3] ~= -1 and left > denial[3]) then
      denial = {name, holder, left, seen}
    end
  end
  if seen < token then
    low[#low + 1] = name
  elseif seen > fence then
    fence = seen
  end
end
if denial then
  return denial
end

for _, name in ipairs(KEYS) do
  redis.call('HSET', name, owner, 1)
  redis.call('PEXPIRE', name, ttl)
end
raise(low, ARGV[5], max_ttl + max_skew)
return fence > 0 and {fence} or 1
