-- Remove the names from all holders, or only from one owner. Write tombstones for the owners, tell
-- the inboxes of their clients, and wake the waiters.
--
-- KEYS      the names of the locks
-- ARGV[1]   least TTL of the tombstones in ms: one lives as long as its lock would have
-- ARGV[2]   1 if Redisson's clients are told
-- ARGV[3]   the only owner that loses the names, and gets a tombstone in any case; '' for all
-- ARGV[4..] further owners that get a tombstone
-- Reply     {name, owner, pttl, ...} for the names that were held. For a name with readers, one
--           item stands for all of them, and each reader follows
--
-- Without a tombstone the holder's next renewal would find the name absent, take that
-- for a lost memory, and put it back. Tombstones are written before the lock is
-- removed. Each owner has its own, so that a second forced release does not lift the
-- first.

local found, only = {}, ARGV[3]
for _, name in ipairs(KEYS) do
  local holder = redis.call('HKEYS', name)[1]
  if holder and (only == '' or holder == only and holder ~= readers) then
    local function list(owner, left)
      found[#found + 1] = name
      found[#found + 1] = owner
      found[#found + 1] = left
    end
    list(holder, redis.call('PTTL', name))
    each(name, holder, list)
  end
end

local buried, known = {}, {}
local function bury(name, owner, ttl)
  redis.call('SET', key('tombstone', name) .. ':' .. owner, 1, 'PX', ttl)
  if not known[owner] then
    known[owner] = true
    buried[#buried + 1] = owner
  end
end

for i = only == '' and 4 or 3, #ARGV do
  for _, name in ipairs(KEYS) do
    bury(name, ARGV[i], ARGV[1])
  end
end
for i = 1, #found, 3 do
  local name, owner = found[i], found[i + 1]
  if owner == readers then
    redis.call('DEL', key('readers', name))
  else
    bury(name, owner, math.max(ARGV[1], found[i + 2]))
  end
  if redis.call('DEL', name) == 1 and ARGV[2] == '1' then
    announce(name)
  end
end
local queue = queues()
for _, owner in ipairs(buried) do
  pcall(queue.reached, 'forced', KEYS[1], owner) -- a user may lack the right
end
queue.wake_all(KEYS)
return found
