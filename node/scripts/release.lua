-- Remove the names that the owner holds, and wake the first waiter of each free name.
--
-- KEYS      the names of the locks; the keys of their queues, the marker if there is ARGV[5], and the
--           fences. For a name without a waiter, queue is enough
-- ARGV[1]   owner
-- ARGV[2]   offsets of the names' fences: see locate. None, and no more arguments, if queue is the only key
-- ARGV[3]   waiter for which they were acquired, or none
-- ARGV[4]   its ticket
-- ARGV[5]   how long its entries live from now on, in ms: it tries again, and is not woken.
--           None if it leaves the queues
-- Reply     how many names were removed
--           {'KEYS'}  the name has a queue: nothing was done, since keys are missing

local own, name, queue, waiter, whole = nil, KEYS[1], KEYS[2], ARGV[3], KEYS[3]
if not whole and redis.pcall('EXISTS', queue) ~= 0 then
  return {'KEYS'}
end
if not (KEYS[6] or ARGV[5] or ANNOUNCE) then
  -- The key goes with its last field.
  own = redis.pcall('HDEL', name, ARGV[1])
  if not waiter and (own == 1 or own == 0) and (not whole or redis.pcall('EXISTS', queue) == 0) then
    return own
  end
  if own == 1 then
    -- include inline/wake
  end
end

-- The rest is rarely reached, so its functions are made only here.
-- include lib/key
-- include lib/announce
-- include lib/give
-- include lib/fence
-- include lib/queue
local names = first(4, ARGV[5] and 2 or 1)
-- include inline/surrender
