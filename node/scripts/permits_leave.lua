-- Remove a waiter from the queue of a pool, and wake the next waiters for the free slots.
--
-- KEYS     the pool; queue and waiting of its queue; its index
-- ARGV[1]  waiter
-- ARGV[2]  size of the pool that the caller knows
-- ARGV[3]  version of that size
-- Reply    how many entries were removed

-- include lib/key
-- include lib/fence
-- include lib/queue
-- include lib/book
-- include lib/vacancies
-- include lib/pool
local pool, line, failure = KEYS[1], pools(), nil
local removed = redis.pcall('ZREM', key('queue', pool), ARGV[1])
if type(removed) == 'number' then
  pcall(line.queue.dropped, pool, ARGV[1])
elseif string.find(removed.err, 'WRONGTYPE', 1, true) then
  removed = 0
else
  failure = removed
end
local fits, size = pcall(in_force, pool, ARGV[2], ARGV[3])
line.wake_free(pool, fits and size or tonumber(ARGV[2]))
return failure or removed
