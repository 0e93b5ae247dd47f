-- Remove the names from all holders, or only from one owner. Write tombstones for the owners, tell
-- the inboxes of their clients, and wake the waiters.
--
-- KEYS      the names of the locks; their readers, tombstones, and the keys of their queues; the
--           index, if they are slots
-- ARGV[1]   least TTL of the tombstones in ms: one lives as long as its lock would have
-- ARGV[2]   1 if Redisson's clients are told
-- ARGV[3]   the only owner that loses the names, and gets a tombstone in any case; '' for all
-- ARGV[4..] further owners that get a tombstone
-- Reply     {name, owner, pttl, ...} for the names that were held. For a name with readers, one
--           item stands for all of them, and each reader follows. Only the first 8,000: the bytes
--           that a client accepts have room for these
--
-- Without a tombstone the holder's next renewal would find the name absent, take that
-- for a lost memory, and put it back. Tombstones are written before the lock is
-- removed. Each owner has its own, so that a second forced release does not lift the
-- first.

-- include lib/key
-- include lib/fence
-- include lib/queue
-- include lib/announce
-- include lib/put
-- include lib/readers
-- include lib/tombstone
-- include lib/book
local found, only, reads = {}, ARGV[3], {}
local names, time = first(6, indexed(KEYS[1])), redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, name in ipairs(names) do
  local holder = redis.call('HKEYS', name)[1]
  local function list(owner, left)
    found[#found + 1] = name
    found[#found + 1] = owner
    found[#found + 1] = left
  end
  if holder and (only == '' or holder == only and holder ~= readers) then
    list(holder, redis.call('PTTL', name))
    each(name, holder, list)
  elseif holder == readers and reading(name, only, now) then
    reads[name] = true
    list(holder, redis.call('PTTL', name))
    list(only, redis.call('ZSCORE', key('readers', name), only) - now)
  end
end

local evicted, known = {}, {}
local function evict(name, owner, ttl)
  bury(name, owner, ttl, now)
  if not known[owner] then
    known[owner] = true
    evicted[#evicted + 1] = owner
  end
end

for i = only == '' and 4 or 3, #ARGV do
  for _, name in ipairs(names) do
    evict(name, ARGV[i], ARGV[1])
  end
end
for i = 1, #found, 3 do
  local name, owner = found[i], found[i + 1]
  local free
  if owner ~= readers then
    evict(name, owner, math.max(ARGV[1], found[i + 2]))
  end
  if reads[name] then
    free = owner == only and settle(name, now, owner)
  else
    if owner == readers then
      redis.call('DEL', key('readers', name))
    end
    free = redis.call('DEL', name) == 1
    book(name, 'XX', 0)
  end
  if free and ARGV[2] == '1' then
    announce(name)
  end
end
local queue = queues()
for _, owner in ipairs(evicted) do
  pcall(queue.reached, 'forced', names[1], owner) -- a user may lack the right
end
queue.wake_all(names)
for i = #found, 24001, -1 do
  found[i] = nil
end
return found
