-- Remove the slots that the owner holds, and wake the next waiters of the pool.
--
-- KEYS[1]    the pool
-- KEYS[2..]  the slots
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

local pool, name, keep, own = KEYS[1], KEYS[2], tonumber(ARGV[6]), nil
-- include lib/book
if not (KEYS[3] or keep) then
  own = redis.pcall('HDEL', name, ARGV[1]) -- the key goes with its last field
  if (own == 0 or own == 1) and redis.pcall('EXISTS', QUEUE .. pool .. REST, WAITING .. pool .. REST) == 0 then
    if own == 1 then
      book(name)
    end
    return own
  end
end

-- include lib/key
-- include lib/give
-- include lib/fence
-- include lib/queue
-- include lib/pool
local removed, failure, freed = 0, nil, {}
for i = 2, #KEYS do
  local own = give(KEYS[i], ARGV[1], false, own)
  if own == 1 then
    removed = removed + 1
    freed[#freed + 1] = number_of(KEYS[i])
    book(KEYS[i])
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
