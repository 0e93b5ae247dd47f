-- Remove the names that the owner holds, and wake who waits for those that are free.
--
-- KEYS      the names of the locks
-- ARGV[1]   owner
-- ARGV[2]   1 if Redisson's clients are to be told
-- ARGV[3]   waiter on whose behalf they were taken, or none
-- ARGV[4]   its ticket
-- ARGV[5]   how long its entries live from now on, in ms, as it tries again; it is not woken.
--           None if it leaves the queues
-- Reply     how many names were removed
--
-- A key of another type is not the owner's and not a reason to keep the others, hence
-- pcall: an undo must undo all that it can. Any other error of that is told in the end.

local removed, failure, queued = 0, nil, false
for _, name in ipairs(KEYS) do
  local own = redis.pcall('HEXISTS', name, ARGV[1])
  if own == 1 then
    removed = removed + redis.call('DEL', name)
    if ARGV[2] == '1' then
      announce(name)
    end
  elseif own ~= 0 and not string.find(own.err, 'WRONGTYPE', 1, true) then
    failure = own
  end
  queued = queued or redis.pcall('EXISTS', key('queue', name)) == 1
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
