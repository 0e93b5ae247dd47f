-- pools makes the functions about pools: slots, each of which is a lock, and one queue of those
-- who wait for any of them.
--
-- The pool is a name of its own, under which the nodes keep its queue. At the name of the pool
-- itself is the size that was set last, if it ever was: a hash of size and version, without a TTL.

local SLOT, POOL = 'quorumlock:permit:', 'quorumlock:permits'

-- slot is the name of a slot of a pool, by its number from 0 on; or of several in a message, by
-- their numbers with commas between. The number stands before the name of the semaphore, which may
-- itself end with a colon and a number.
local function slot(pool, numbers)
  return SLOT .. numbers .. string.sub(pool, #POOL + 1)
end

-- number_of is the number of a slot, by its name.
local function number_of(name)
  return tonumber(string.match(name, '^%d+', #SLOT + 1))
end

-- in_force is the size of a pool, its version, and the version that the node has: what was set
-- last, as far as the node or the caller knows.
local function in_force(pool, size, version)
  local set = redis.call('HMGET', pool, 'size', 'version')
  local known = tonumber(set[2]) or 0
  if set[1] and known >= tonumber(version) then
    return tonumber(set[1]), known, known
  end
  return tonumber(size), tonumber(version), known
end

-- vacancies looks at all slots. It returns the numbers of those that are free and of those that
-- are held, each from the lowest on, and the free ones as a bitmap. Mostly nearly all are held:
-- then it asks for many at once.
local function vacancies(pool, size)
  local free, held, bytes, names, rest = {}, {}, {}, {}, string.sub(pool, #POOL + 1)
  for i = 0, size - 1 do
    names[i] = SLOT .. i .. rest
  end
  local function look(from, to)
    local there = redis.call('EXISTS', unpack(names, from, to))
    if there == 0 or there == to - from + 1 then
      local list = there == 0 and free or held
      for i = from, to do
        list[#list + 1] = i
      end
    else
      local middle = math.floor((from + to) / 2)
      look(from, middle)
      look(middle + 1, to)
    end
  end
  if size > 0 then
    look(0, size - 1)
  end
  for i = 1, math.ceil(size / 8) do
    bytes[i] = 0
  end
  for _, i in ipairs(free) do
    local at = math.floor(i / 8) + 1
    bytes[at] = bytes[at] + 2 ^ (i % 8)
  end
  for i = 1, #bytes do
    bytes[i] = string.char(bytes[i])
  end
  return {pool = pool, free = free, held = held, map = table.concat(bytes)}
end

-- after is how many ms pass until so many slots more are free, if nobody gives one back: as far
-- as the first 64 that are held tell.
local function after(spots, more)
  local lives = {}
  for i = 1, math.min(#spots.held, 64) do
    local left = redis.call('PTTL', slot(spots.pool, spots.held[i]))
    lives[i] = left == -1 and 2 ^ 43 or left
  end
  table.sort(lives)
  return lives[math.max(1, math.min(more, #lives))] or 0
end

local function pools()
  local queue = queues(true)
  local places, attempts = 100, 1000

  -- wanted is for how many slots a waiter waits, by its id.
  local function wanted(waiter)
    return math.max(tonumber(string.match(waiter, '%*(%d+)$') or string.match(waiter, '%*(%d+)@%d*$')) or 1, 1)
  end

  -- vacated is the name of a pool in a message that has a waiter take these slots: so many of the
  -- free ones, from a place on. A message to stand by has no numbers of slots.
  local function vacated(pool, spots, from, count)
    return slot(pool, table.concat(spots.free, ',', from, from + count - 1))
  end

  -- precedence is how many ms a waiter has to leave free slots to others, or nil, and whether
  -- that is to the first in the queue alone. Who stands before it and has a privilege is left
  -- as many as it waits for, and if so many are not free, all there are. See the function of
  -- that name about queues for what a privilege is.
  local function precedence(pool, waiter, need, now, spots)
    local place, dead, left, taken = 0, 0, nil, 0
    while dead < attempts and place < places do
      local other = redis.call('ZRANGE', key('queue', pool), place, place)[1]
      if not other or other == waiter then
        return nil, false
      end
      local since, count = redis.call('ZSCORE', key('woken', pool), other), wanted(other)
      local patience = queue.patience(other)
      if since and since + patience <= now then
        place = place + 1
      elseif not since and taken + count > #spots.free then
        return after(spots, taken + count - #spots.free), place == 0
      elseif since or queue.reached('woken', vacated(pool, spots, taken + 1, count), other) then
        if not since then
          queue.expect(pool, other, now)
          since = now
        end
        taken, left = taken + count, math.max(left or 0, since + patience - now)
        if taken + need > #spots.free then
          return left, place == 0
        end
        place = place + 1
      else
        queue.dropped(pool, other)
        dead = dead + 1
      end
    end
    return dead == attempts and queue.patience('') or nil, false
  end

  -- in_order has slots that were freed just now stand before those that were free before: for
  -- the others somebody is on the way.
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

  -- wake wakes as many of the first in the queue as there are slots for, and tells the next to
  -- stand by. Who was woken before, and is on the way, is told again, and not to take another
  -- one. Where the first of them waits for more than are free, nobody is woken: those
  -- behind it would take what it needs. See the function of that name about queues.
  local function wake(pool, size, except, freed)
    if redis.pcall('EXISTS', key('queue', pool)) ~= 1 then
      return
    end
    local spots = vacancies(pool, size)
    if #spots.free == 0 then
      return
    end
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
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
      local since, count = redis.call('ZSCORE', key('woken', pool), waiter), wanted(waiter)
      local frozen = since and since + queue.patience(waiter) <= now
      local name = slot(pool, '')
      if waiter == except or frozen and (spare == 0 or taken + count > #spots.free) then
        place = place + 1
      elseif kind == 'woken' and since and not frozen then
        if queue.reached(kind, name, waiter) then
          place, taken = place + 1, taken + count
          kind = taken < #spots.free and kind or 'standby'
        else
          queue.dropped(pool, waiter)
          dead = dead + 1
        end
      elseif kind ~= 'standby' and taken + count > #spots.free then
        return
      else
        if kind ~= 'standby' then
          name = vacated(pool, spots, given + 1, count)
        end
        if not queue.reached(kind, name, waiter) then
          queue.dropped(pool, waiter)
          dead = dead + 1
        elseif kind == 'standby' then
          return
        else
          if kind == 'woken' then
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

  -- took has a waiter that was granted what it waits for stand in the queue no longer: those
  -- behind it wait for other slots. Since when it is expected stays, for if it gives them back:
  -- it has no new privilege then.
  local function took(pool, waiter, now)
    queue.expect_all({pool}, waiter, now)
    redis.call('ZREM', key('waiting', pool), waiter)
    redis.call('ZREM', key('queue', pool), waiter)
    local old = redis.call('ZRANGE', key('woken', pool), '-inf', now - 60000, 'BYSCORE', 'LIMIT', 0, 100)
    if #old > 0 then -- of clients that died; one that still waits only gets a privilege once more
      redis.call('ZREM', key('woken', pool), unpack(old))
    end
  end

  -- wake_free does that whatever fails: see wake_all about queues.
  local function wake_free(pool, size, except, freed)
    pcall(wake, pool, size, except, freed or {})
  end

  return {queue = queue, precedence = precedence, took = took, wake_free = wake_free}
end
