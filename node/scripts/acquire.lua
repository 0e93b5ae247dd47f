-- Take every name for one owner, or none.
--
-- KEYS      the names of the locks
-- ARGV[1]   owner
-- ARGV[2]   TTL in ms
-- Reply     1                    every name is the owner's for a TTL from now
--           {name, owner, pttl}  held by another: the one that lives longest
--
-- A lock is a hash with one field, its owner: the layout of Redisson's RLock. All is
-- read before the first write, so a key of another type fails the whole script early,
-- and each HSET is followed directly by its PEXPIRE: no lock is ever without a TTL.

local owner, ttl = ARGV[1], ARGV[2]
local denial

for _, name in ipairs(KEYS) do
  local holder = redis.call('HKEYS', name)[1]
  if holder and holder ~= owner then
    local left = redis.call('PTTL', name)
    if not denial or left == -1 or (denial[3] ~= -1 and left > denial[3]) then
      denial = {name, holder, left}
    end
  end
end
if denial then
  return denial
end

for _, name in ipairs(KEYS) do
  redis.call('HSET', name, owner, 1)
  redis.call('PEXPIRE', name, ttl)
end
return 1
