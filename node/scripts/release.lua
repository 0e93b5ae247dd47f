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
-- As an undo, it does all that it can, and tells what kept a name from being removed.

local removed, failure, queued = 0, nil, false
for _, name in ipairs(KEYS) do
  local own = give(name, ARGV[1], ARGV[2] == '1')
  if type(own) == 'table' then
    failure = own
  else
    removed = removed + own
  end
  queued = queued or redis.pcall('EXISTS', key('queue', name)) == 1
end
local keep = tonumber(ARGV[5])
if not queued and not keep then
  return failure or removed
end
