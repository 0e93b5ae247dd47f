-- End an owner's reading of the names, and wake the next waiters of the free names.
--
-- KEYS      the names of the locks; their queues and readers, and the other keys of the queues; the fences. For a name without
--           a waiter, queue and readers are enough
-- ARGV      as for release
-- Reply     as for release
--
-- Names that the owner still holds as a writer are removed too: the node may have missed its
-- downgrade. As release does, it removes all that it can.

local name, queue, list, owner, whole, reply = KEYS[1], KEYS[2], KEYS[3], ARGV[1], KEYS[4], nil
if not whole then
  if redis.pcall('EXISTS', queue) ~= 0 then
    return {'KEYS'}
  elseif not ANNOUNCE then
    -- include inline/unread
    if reply then
      return reply
    end
  end
end

-- include lib/key
-- include lib/fence
-- include lib/put
-- include lib/queue
-- include lib/announce
-- include lib/readers
local names, time = first(5, 1), redis.call('TIME')
locate(names, ARGV[2] or '')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local removed, failure, queued = 0, nil, false
for _, name in ipairs(names) do
  local own, free, err = unread(name, owner, now)
  removed, failure = removed + (own and 1 or 0), err or failure
  if free and ANNOUNCE then
    announce(name)
  end
  queued = queued or whole and redis.pcall('EXISTS', key('queue', name), key('waiting', name)) ~= 0
end
local keep = tonumber(ARGV[5])
if queued or keep then
  local queue = queues()
  if ARGV[3] then
    queue.rejoin(names, ARGV[3], ARGV[4], keep)
  end
  queue.wake_all(names, keep and ARGV[3])
end
return failure or removed
