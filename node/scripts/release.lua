-- Remove the names that the owner holds, and wake the first waiter of each free name.
--
-- KEYS      the names of the locks
-- ARGV[1]   owner
-- ARGV[2]   offsets of the names' fences: see locate
-- ARGV[3]   waiter for which they were acquired, or none
-- ARGV[4]   its ticket
-- ARGV[5]   how long its entries live from now on, in ms: it tries again, and is not woken.
--           None if it leaves the queues
-- Reply     how many names were removed
--
-- An undo must release all that it can: so it goes on after an error, and returns the first one.

local own, name, waiter = nil, KEYS[1], ARGV[3]
if not (KEYS[2] or ARGV[5] or ANNOUNCE) then
  -- The key goes with its last field.
  own = redis.pcall('HDEL', name, ARGV[1])
  local queue = QUEUE .. name .. REST
  if not waiter and (own == 1 or own == 0) and redis.pcall('EXISTS', queue) == 0 then
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
locate(KEYS, ARGV[2])
local removed, failure, queued = 0, nil, false
for _, name in ipairs(KEYS) do
  local own = give(name, ARGV[1], ANNOUNCE, own)
  if type(own) == 'table' then
    failure = own
  else
    removed = removed + own
  end
  queued = queued or redis.pcall('EXISTS', key('queue', name), key('waiting', name)) ~= 0
end
local keep = tonumber(ARGV[5])
if queued or keep then
  local queue = queues()
  if ARGV[3] then
    queue.rejoin(KEYS, ARGV[3], ARGV[4], keep)
  end
  queue.wake_all(KEYS, keep and ARGV[3])
end
return failure or removed
