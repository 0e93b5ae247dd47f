-- Remove the names that the owner holds, and wake who waits for those that are free.
--
-- KEYS      the names of the locks
-- ARGV[1]   owner
-- ARGV[2]   waiter on whose behalf they were taken, or none
-- ARGV[3]   its ticket
-- ARGV[4]   how long its entries live from now on, in ms, as it tries again; it is not woken.
--           None if it leaves the queues
-- Reply     how many names were removed
--
-- As an undo, it does all that it can, and tells what kept a name from being removed.

local own
if not (KEYS[2] or ARGV[2] or ANNOUNCE) then
  -- Mostly nobody waits. The key goes with its last field.
  own = redis.pcall('HDEL', KEYS[1], ARGV[1])
  if (own == 1 or own == 0) and redis.pcall('EXISTS', QUEUE .. KEYS[1] .. REST) == 0 then
    return own
  end
end

-- The rest: mostly it is not reached, and what it needs is not made.
-- include lib/key
-- include lib/announce
-- include lib/give
-- include lib/queue
local removed, failure, queued = 0, nil, false
for _, name in ipairs(KEYS) do
  local own = give(name, ARGV[1], ANNOUNCE, own)
  if type(own) == 'table' then
    failure = own
  else
    removed = removed + own
  end
  queued = queued or redis.pcall('EXISTS', key('queue', name), key('woken', name)) ~= 0
end
local keep = tonumber(ARGV[4])
if queued or keep then
  local queue = queues()
  if ARGV[2] then
    queue.rejoin(KEYS, ARGV[2], ARGV[3], keep)
  end
  queue.wake_all(KEYS, keep and ARGV[2])
end
return failure or removed
