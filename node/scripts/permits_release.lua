-- Remove the slots that the owner holds, and wake the next waiters of the pool.
--
-- KEYS      the first slot; the queue of its pool, and the index; the pool; waiting of the queue; the other slots; the marker
--           and the fences if there is ARGV[6]. For a slot without a waiter, the index is enough
-- ARGV[1]    owner
-- ARGV[2]    size of the pool that the caller knows. None, and no more arguments, if the index is the last key
-- ARGV[3]    version of that size
-- ARGV[4]    waiter for which they were acquired, or none
-- ARGV[5]    its ticket
-- ARGV[6]    how long its entry lives from now on, in ms: it tries again, and is not woken.
--            None if it leaves the queue
-- Reply      how many slots were removed
--            {'KEYS'}  the pool has a queue: nothing was done, since keys are missing
--
-- As release does, it removes all that it can, and then returns the first error.

local name, queue, index, pool, owner, keep, reply = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], tonumber(ARGV[6]), nil
if not pool and redis.pcall('EXISTS', queue) ~= 0 then
  return {'KEYS'}
end
if not (KEYS[6] or keep) then
  -- include inline/remove
  if (reply == 0 or reply == 1) and (not pool or redis.pcall('EXISTS', queue, KEYS[5]) == 0) then
    return reply
  end
end

-- include lib/key
-- include lib/book
-- include lib/give
-- include lib/fence
-- include lib/queue
-- include lib/vacancies
-- include lib/pool
local removed, failure, freed = 0, nil, {}
for i, name in ipairs({name, unpack(KEYS, 6, #KEYS - (keep and 2 or 0))}) do
  local own = give(name, owner, false, i == 1 and reply)
  if own == 1 then
    removed = removed + 1
    freed[#freed + 1] = number_of(name)
    book(name, 'XX', 0)
  elseif own ~= 0 then
    failure = own
  end
end
if pool and (keep or redis.pcall('EXISTS', queue, KEYS[5]) ~= 0) then
  local line = pools()
  if ARGV[4] then
    line.queue.rejoin({pool}, ARGV[4], ARGV[5], keep, removed == 0)
  end
  local fits, size = pcall(in_force, pool, ARGV[2], ARGV[3])
  line.wake_free(pool, fits and size or tonumber(ARGV[2]), keep and ARGV[4], freed)
end
return failure or removed
