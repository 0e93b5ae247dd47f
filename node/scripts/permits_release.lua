-- Remove the slots that the owner holds, and wake the next waiters of the pool.
--
-- KEYS[1..4]  the pool; queue and waiting of its queue; its index
-- KEYS[5..]  the slots; then, if there is ARGV[6], the marker and the fences
-- ARGV[1]    owner
-- ARGV[2]    size of the pool that the caller knows
-- ARGV[3]    version of that size
-- ARGV[4]    waiter for which they were acquired, or none
-- ARGV[5]    its ticket
-- ARGV[6]    how long its entry lives from now on, in ms: it tries again, and is not woken.
--            None if it leaves the queue
-- Reply      how many slots were removed
--
-- As release does, it removes all that it can, and then returns the first error.

local pool, name, keep, own = KEYS[1], KEYS[5], tonumber(ARGV[6]), nil
-- include lib/book
if not (KEYS[6] or keep) then
  own = redis.pcall('HDEL', name, ARGV[1]) -- the key goes with its last field
  if (own == 0 or own == 1) and redis.pcall('EXISTS', KEYS[2], KEYS[3]) == 0 then
    if own == 1 then
      unbook(name)
    end
    return own
  end
end

-- include lib/key
-- include lib/give
-- include lib/fence
-- include lib/queue
-- include lib/vacancies
-- include lib/pool
local removed, failure, freed = 0, nil, {}
for i = 5, #KEYS - (keep and 2 or 0) do
  local own = give(KEYS[i], ARGV[1], false, own)
  if own == 1 then
    removed = removed + 1
    freed[#freed + 1] = number_of(KEYS[i])
    unbook(KEYS[i])
  elseif own ~= 0 then
    failure = own
  end
end
if keep or redis.pcall('EXISTS', key('queue', pool), key('waiting', pool)) ~= 0 then
  local line = pools()
  if ARGV[4] then
    line.queue.rejoin({pool}, ARGV[4], ARGV[5], keep)
  end
  local fits, size = pcall(in_force, pool, ARGV[2], ARGV[3])
  line.wake_free(pool, fits and size or tonumber(ARGV[2]), keep and ARGV[4], freed)
end
return failure or removed
