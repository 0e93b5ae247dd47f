-- Take a waiter out of the queues of the names, and wake who waits for those that are
-- free: the waiter may have been woken, and does not want them any more.
--
-- KEYS      the names of the locks
-- ARGV[1]   waiter
-- Reply     how many entries were removed
--
-- As a release, it does all that it can, and tells what kept an entry from being removed.

local removed, failure = 0, nil
for _, name in ipairs(KEYS) do
  local own = redis.pcall('ZREM', key('queue', name), ARGV[1])
  if type(own) == 'number' then
    removed = removed + own
    redis.pcall('ZREM', key('waiting', name), ARGV[1])
    redis.pcall('ZREM', key('woken', name), ARGV[1])
    redis.pcall('ZREM', key('writers', name), ARGV[1])
  elseif not string.find(own.err, 'WRONGTYPE', 1, true) then
    failure = own
  end
end
queues().wake_all(KEYS)
return failure or removed
