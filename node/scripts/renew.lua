-- Make every name live for another TTL; put back those that are absent.
--
-- KEYS      the names of the locks
-- ARGV[1]   owner
-- ARGV[2]   TTL in ms
-- ARGV[3]   MaxTTL of the client in ms
-- ARGV[4]   MaxClockSkew of the client in ms
-- ARGV[5]   token of the lease, in us
-- Reply     1                            extended
--           2                            extended, and at least one name was put back
--           {1 or 2, left, restarted}    the same, on a node that recovers for left ms
--           {name, owner, pttl, fence}   held by another; nothing was changed
--           {name, '', 0, 0}             the owner was forced off; nothing was changed
--           {'SETTINGS', max_ttl, max_skew}  see guard; nothing was changed
--
-- A renewal never shortens a life, so a late or repeated one does no harm.

local owner, ttl, token = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5])
local max_ttl, max_skew = tonumber(ARGV[3]), tonumber(ARGV[4])
local short, absent, low = {}, {}, {}

local now, differs, recovering = guard(ARGV[3], ARGV[4])
if differs then
  return differs
end
if ttl > max_ttl then
  return {'SETTINGS', max_ttl, max_skew}
end

-- The fence goes along with the lock as long as acquire could still take a smaller token.
local life = max_ttl + max_skew
local fenced = token > now - life * 1000 and token <= now + max_skew * 1000

for _, name in ipairs(KEYS) do
  local holder = redis.call('HKEYS', name)[1]
  if holder == owner then
    if redis.call('PTTL', name) < ttl then
      short[#short + 1] = name
    end
  elseif holder then
    return {name, holder, redis.call('PTTL', name), tonumber(redis.call('GET', key('fence', name)) or 0)}
  elseif redis.call('EXISTS', key('tombstone', name) .. ':' .. owner) == 1 then
    return {name, '', 0, 0}
  else
    absent[#absent + 1] = name
  end
  if fenced and tonumber(redis.call('GET', key('fence', name)) or 0) < token then
    low[#low + 1] = name
  end
end

-- PEXPIRE works on a node that is out of memory, HSET and SET do not: what is there is
-- kept alive first.
for _, name in ipairs(short) do
  redis.call('PEXPIRE', name, ttl)
end
for _, name in ipairs(absent) do
  redis.call('HSET', name, owner, 1)
  redis.call('PEXPIRE', name, ttl)
end
raise(low, ARGV[5], life)
local done = #absent > 0 and 2 or 1
return recovering and {done, recovering[2] or life, recovering[3] or 0} or done
