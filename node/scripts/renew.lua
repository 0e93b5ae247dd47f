-- Make every name live for another TTL; put back those that are absent.
--
-- KEYS      the names of the locks
-- ARGV[1]   owner
-- ARGV[2]   TTL in ms
-- Reply     1                    extended
--           2                    extended, and at least one name was put back
--           {name, owner, pttl}  held by another; nothing was changed
--           {name, '', 0}        the owner was forced off; nothing was changed
--
-- A renewal never shortens a life, so a late or repeated one does no harm.

local owner, ttl = ARGV[1], tonumber(ARGV[2])
local short, absent = {}, {}

local function tombstone(name)
  -- The colon keeps the tombstones of the names '{a}' and 'a' apart.
  local tag = string.find(name, '{', 1, true) and ':' .. name or '{' .. name .. '}'
  return 'quorumlock:tombstone:' .. tag .. ':' .. owner
end

for _, name in ipairs(KEYS) do
  local holder = redis.call('HKEYS', name)[1]
  if holder == owner then
    if redis.call('PTTL', name) < ttl then
      short[#short + 1] = name
    end
  elseif holder then
    return {name, holder, redis.call('PTTL', name)}
  elseif redis.call('EXISTS', tombstone(name)) == 1 then
    return {name, '', 0}
  else
    absent[#absent + 1] = name
  end
end

-- PEXPIRE works on a node that is out of memory, HSET does not: what is there is kept
-- alive first.
for _, name in ipairs(short) do
  redis.call('PEXPIRE', name, ttl)
end
for _, name in ipairs(absent) do
  redis.call('HSET', name, owner, 1)
  redis.call('PEXPIRE', name, ttl)
end
return #absent > 0 and 2 or 1
