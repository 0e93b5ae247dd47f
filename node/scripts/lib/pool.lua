-- pools returns the functions on pools. A pool consists of slots, each of which is a lock, and of
-- one queue for all of them.
--
-- A pool has a name, under which the nodes keep its queue. The key of that name is a hash with the
-- size that was set last, and its version. It has no TTL, and is absent if no size was ever set.

-- holder returns who holds one of the first slots of a pool. If fewer slots are free than a waiter needs, one of as many
-- is held.
local function holder(pool, need)
  for i = 0, need - 1 do
    local owner = redis.pcall('HKEYS', slot(pool, i))[1]
    if owner then
      return owner
    end
  end
  return POOL
end

local function pools()
  local queue = queues(true)
  local places, attempts = 100, 1000

  -- wanted returns how many slots a waiter waits for, from its id.
  local function wanted(waiter)
    return math.max(tonumber(string.match(waiter, '%*(%d+)$') or string.match(waiter, '%*(%d+)@%d*$')) or 1, 1)
  end

  -- vacated returns the name for a message that tells a waiter which slots to take: count of the
  -- free ones, beginning at index from. A standby message has no slot numbers.
  local function vacated(pool, spots, from, count)
    return slot(pool, table.concat(spots.free, ',', from, from + count - 1))
  end

  -- lives reports whether the client of a waiter listens. Without the right to send messages, each
  -- is taken to live.
  local function lives(pool, waiter)
    local ok, heard = pcall(queue.reached, 'alive', slot(pool, ''), waiter)
    return not ok or heard
  end

  -- told wakes a waiter if enough slots are free, and reports whether it lives.
  local function told(pool, spots, from, count, waiter)
    if from + count - 1 > #spots.free then
      return lives(pool, waiter)
    end
    return queue.reached('woken', vacated(pool, spots, from, count), waiter)
  end

  -- precedence returns how many ms a waiter must leave free slots to earlier waiters, or nil, and
  -- whether only the first in the queue is in its way. Each earlier waiter with a privilege gets as
  -- many slots as it waits for, or all free ones if there are too few. A waiter for more slots than
  -- the pool has does not count. The function of the same name in queue.lua explains the
  -- privilege.
  local function precedence(pool, waiter, need, now, spots)
    local place, dead, left, taken = 0, 0, nil, 0
    while dead < attempts and place < places do
      local other = redis.call('ZRANGE', key('queue', pool), place, place)[1]
      if not other or other == waiter then
        return nil, false
      end
      local deadline, since = queue.known(pool, other)
      local count = wanted(other)
      local patience, missing = queue.patience(other), taken + count - #spots.free
      if count > spots.size or since and since + patience <= now then
        place = place + 1
      elseif not since and not (deadline and told(pool, spots, taken + 1, count, other)) then
        queue.dropped(pool, other)
        dead = dead + 1
      elseif not since and missing > 0 then
        return after(spots, missing), place == 0
      else
        if not since then
          queue.expect(pool, other, now)
          since = now
        end
        taken, left = taken + count, math.max(left or 0, since + patience - now)
        if taken + need > #spots.free then
          return left, place == 0
        end
        place = place + 1
      end
    end
    return dead == attempts and queue.patience('') or nil, false
  end

  -- in_order sorts slots that were freed just now before those that were free already: other
  -- waiters are on their way to the latter.
  local function in_order(free, freed)
    local first, order = {}, {}
    for _, i in ipairs(freed) do
      first[i] = true
    end
    for pass = 1, 2 do
      for _, i in ipairs(free) do
        if (first[i] == true) == (pass == 1) then
          order[#order + 1] = i
        end
      end
    end
    return order
  end

  -- wake wakes as many waiters from the front of the queue as there are slots for, and sends
  -- standby to the next. A waiter that was woken before and is on its way gets the message again,
  -- with the same slots. If the first waiter needs more slots than are free, and its client lives, no
  -- waiter is woken: later ones would take the slots that it needs. See also the function of the same
  -- name in queue.lua.
  local function wake(pool, size, except, freed)
    if redis.pcall('EXISTS', key('queue', pool)) ~= 1 then
      return
    end
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local spots = vacancies(pool, size, now)
    if #spots.free == 0 then
      return
    end
    queue.prune(pool, now)
    spots.free = in_order(spots.free, freed)
    local place, dead, taken, given = 0, 0, 0, 0
    local kind, spare = 'woken', 3
    if except then
      kind, spare = 'returned', 1
    end
    while dead < attempts and place < places do
      local waiter = redis.call('ZRANGE', key('queue', pool), place, place)[1]
      if not waiter then
        return
      end
      local deadline, since = queue.known(pool, waiter)
      local count = wanted(waiter)
      local frozen = since and since + queue.patience(waiter) <= now
      local name = slot(pool, '')
      if waiter == except or count > size or frozen and (spare == 0 or taken + count > #spots.free) then
        place = place + 1
      elseif kind == 'woken' and since and not frozen then
        if deadline and queue.reached(kind, name, waiter) then
          place, taken = place + 1, taken + count
          kind = taken < #spots.free and kind or 'standby'
        else
          queue.dropped(pool, waiter)
          dead = dead + 1
        end
      elseif kind ~= 'standby' and taken + count > #spots.free then
        if deadline and lives(pool, waiter) then
          return
        end
        queue.dropped(pool, waiter)
        dead = dead + 1
      else
        if kind ~= 'standby' then
          name = vacated(pool, spots, given + 1, count)
        end
        if not deadline or not queue.reached(kind, name, waiter) then
          queue.dropped(pool, waiter)
          dead = dead + 1
        elseif kind == 'standby' then
          return
        else
          if kind == 'woken' and not since then
            queue.expect(pool, waiter, now)
          end
          place = place + 1
          if frozen then
            spare = spare - 1
          elseif kind == 'returned' then
            return
          else
            taken, given = taken + count, given + count
            if taken >= #spots.free then
              kind = 'standby'
            end
          end
        end
      end
    end
  end

  -- took removes a waiter that got its slots from the queue, since those behind it wait for other
  -- slots. The time since which it is expected stays: if it gives the slots back, it gets no new
  -- privilege.
  local function took(pool, waiter, now)
    queue.expect_all({pool}, waiter, now)
    redis.call('HDEL', key('waiting', pool), waiter)
    redis.call('ZREM', key('queue', pool), waiter)
  end

  -- wake_free is wake without its errors: see wake_all in queue.lua.
  local function wake_free(pool, size, except, freed)
    pcall(wake, pool, size, except, freed or {})
  end

  -- stand returns what denies its slots to a waiter, or nil, and keeps its entry: see the script refresh. A
  -- waiter that may come chooses slots by what it knows, as it does after a message. One that waits for more
  -- slots than the pool has may come too, since only an attempt tells it of the size. Many waiters of a
  -- refresh may wait for one pool, so its slots are looked at once.
  local looked = {}
  local function stand(pool, size, version, waiter, ticket, keep, now)
    queue.sound(pool, waiter)
    local need = wanted(waiter)
    size = in_force(pool, size, version)
    if need > size then
      return nil
    end
    local spots = looked[size .. pool] or vacancies(pool, size, now)
    looked[size .. pool] = spots
    queue.enter_all({pool}, waiter, ticket, keep, now)
    local rank, missing = redis.call('ZRANK', key('queue', pool), waiter) or 0, need - #spots.free
    if missing > 0 then
      queue.came({pool}, waiter)
      return {pool, holder(pool, need), after(spots, missing + rank), 0, rank}
    end
    local left, first = precedence(pool, waiter, need, now, spots)
    if first then
      queue.came({pool}, waiter)
    end
    return left and {pool, '', math.max(left, 1), 0, rank}
  end

  return {queue = queue, precedence = precedence, took = took, wake_free = wake_free, stand = stand}
end
