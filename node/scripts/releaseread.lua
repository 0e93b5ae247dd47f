-- End an owner's reading of the names, and wake the next waiters of the free names.
--
-- KEYS      the names of the locks; their readers, and the keys of their queues; the marker if there is
--           ARGV[6], and the fences
-- ARGV[1]   owner
-- ARGV[2]   1 if Redisson's clients are told
-- ARGV[3]   offsets of the names' fences: see locate
-- ARGV[4..6]  waiter, its ticket, and how long its entries live from now on, as for release
-- Reply     as for release
--
-- Names that the owner still holds as a writer are removed too: the node may have missed its
-- downgrade. As release does, it removes all that it can.

local names = first(5, ARGV[6] and 2 or 1)
locate(names, ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local removed, failure, queued = 0, nil, false
for _, name in ipairs(names) do
  local own, free, err = unread(name, ARGV[1], now)
  removed, failure = removed + (own and 1 or 0), err or failure
  if free and ARGV[2] == '1' then
    announce(name)
  end
  queued = queued or redis.pcall('EXISTS', key('queue', name), key('waiting', name)) ~= 0
end
local keep = tonumber(ARGV[6])
if queued or keep then
  local queue = queues()
  if ARGV[4] then
    queue.rejoin(names, ARGV[4], ARGV[5], keep)
  end
  queue.wake_all(names, keep and ARGV[4])
end
return failure or removed
