-- End an owner's reading of the names, and wake the next waiters of the free names.
--
-- KEYS      the names of the locks; their queues and readers, and the other keys of the queues; the marker if there is ARGV[5],
--           and the fences. For a name without a waiter, queue and readers are enough
-- ARGV      as for release
-- Reply     as for release
--
-- Names that the owner still holds as a writer are removed too: the node may have missed its downgrade.

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
local names, own, time = first(5, ARGV[5] and 2 or 1), nil, redis.call('TIME')
local function give(name, owner, told)
  return unread(name, owner, told, time[1] * 1000 + math.floor(time[2] / 1000))
end
-- include inline/surrender
