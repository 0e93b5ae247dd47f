-- Remove a waiter from the queues of the names, and wake the next waiters of the free names: the
-- one that leaves may have been woken.
--
-- KEYS      the names of the locks; the keys of their queues
-- ARGV[1]   waiter
-- Reply     how many entries were removed
--
-- As release does, it removes all that it can, and then returns the first error.

-- include lib/key
-- include lib/fence
-- include lib/queue
local names, queue = first(4, 0), queues()
local removed, failure = 0, nil
for _, name in ipairs(names) do
  local own = redis.pcall('ZREM', key('queue', name), ARGV[1])
  if type(own) == 'number' then
    removed = removed + own
    pcall(queue.dropped, name, ARGV[1])
  elseif not string.find(own.err, 'WRONGTYPE', 1, true) then
    failure = own
  end
end
queue.wake_all(names)
return failure or removed
