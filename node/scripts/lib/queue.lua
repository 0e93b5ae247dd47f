-- queues returns the functions on the queues of names. Most scripts find no waiters and do not need
-- them. The usual cases of a single name are in inline/wait and inline/wake.
--
-- The queue of a name consists of two keys:
--
--   queue    a sorted set of waiters by ticket, then by id: the order in which they are served
--   waiting  a hash with fields for each waiter, and three for all:
--              WAITER    the waiter's deadline: if it has not come by then, it no longer waits
--              +WAITER   the time since which the woken waiter is expected, if it is
--              (empty)   no deadline is earlier
--              -         when both keys end: a little before the latest deadline, or later
--              +         set if the index is kept
--
-- A third key, writers, is the index: a sorted set of the waiters that are not readers, by ticket. The
-- first reader makes it. With it a reader finds the writer before it, however many readers wait.
--
-- Times are in ms of the node's clock. A waiter has a deadline if and only if it is in queue. All
-- functions except wake_all raise an error at a key of another type.
--
-- The queue of a pool has no index, since slots have no readers. pooled says that it is one.
local function queues(pooled)
  -- reads reports whether a waiter is a reader: its id ends in r.
  local function reads(waiter)
    return string.find(waiter, '@%d*r$') ~= nil
  end

  -- known returns a waiter's deadline, and since when it is expected.
  local function known(name, waiter)
    local state = redis.call('HMGET', key('waiting', name), waiter, '+' .. waiter)
    return tonumber(state[1]), tonumber(state[2])
  end

  -- dropped removes waiters from the queue of a name, and returns how many there were. The hash goes
  -- with the last waiter. The hash of a pool stays while it has other waiters that are expected.
  local function dropped(name, ...)
    local fields, count = {...}, select('#', ...)
    for i = 1, count do
      fields[count + i] = '+' .. fields[i]
    end
    redis.call('HDEL', key('waiting', name), unpack(fields))
    if not pooled and not (count == 1 and reads(...)) then
      redis.call('ZREM', key('writers', name), ...)
    end
    local removed = redis.call('ZREM', key('queue', name), ...)
    if redis.call('EXISTS', key('queue', name)) == 0 then
      local left = pooled and redis.call('HKEYS', key('waiting', name)) or {}
      if not string.find(table.concat(left), '+', 1, true) then
        redis.call('DEL', key('waiting', name))
      end
    end
    return removed
  end

  -- forget removes the times since which waiters without an entry are expected, if they are so old
  -- that their clients are dead. A live waiter only gets one more privilege.
  local function forget(name, now)
    for _, field in ipairs(redis.call('HKEYS', key('waiting', name))) do
      if #field > 1 and string.sub(field, 1, 1) == '+' then
        local deadline, since = known(name, string.sub(field, 2))
        if not deadline and since and since <= now - 60000 then
          redis.call('HDEL', key('waiting', name), field)
        end
      end
    end
  end

  -- prune removes the waiters that are past their deadlines. It looks at all waiters, but only if one
  -- may be late, and in a long queue not at once.
  local function prune(name, now)
    local due = tonumber(redis.call('HGET', key('waiting', name), ''))
    if not due or due > now then
      return
    end
    local place, earliest = 0, nil
    repeat
      local some, late = redis.call('ZRANGE', key('queue', name), place, place + 499), {}
      local deadlines = some[1] and redis.call('HMGET', key('waiting', name), unpack(some)) or {}
      for i, waiter in ipairs(some) do
        local deadline = tonumber(deadlines[i])
        if not deadline or deadline <= now then
          late[#late + 1] = waiter
        elseif not earliest or deadline < earliest then
          earliest = deadline
        end
      end
      place = place + #some - #late
      if late[1] then
        dropped(name, unpack(late))
      end
    until #some < 500
    if pooled then
      forget(name, now)
    end
    if earliest then
      -- It uses pcall: a node without memory looks again next time.
      redis.pcall('HSET', key('waiting', name), '', math.max(earliest, now + math.floor(place / 10)))
    end
  end

  -- prune_all calls prune for several names.
  local function prune_all(names, now)
    for _, name in ipairs(names) do
      prune(name, now)
    end
  end

  -- silent holds the inboxes without a subscriber that this call has found. It saves messages,
  -- since a client that is gone may leave many waiters.
  local silent = {}

  -- reached sends a message to the inbox of a waiter's client, and reports whether the inbox has a
  -- subscriber. Clients ignore the kind alive, which only finds that out. The inbox is the part of
  -- the waiter's id before the first colon. The name comes last, since it may hold any bytes.
  local function reached(kind, name, waiter)
    local inbox = 'quorumlock:inbox:' .. string.match(waiter, '^[^:]*')
    if not silent[inbox] then
      local token = string.format('%.0f', fence(name))
      silent[inbox] = redis.call('PUBLISH', inbox, kind .. ' ' .. token .. ' ' .. #waiter .. ' ' .. waiter .. name) == 0
    end
    return not silent[inbox]
  end

  -- expect records that a waiter with an entry was woken. If it was woken before and has not come
  -- since, the earlier time stays. It uses pcall: a node without memory cannot record the time, but
  -- the waiter has been woken all the same.
  local function expect(name, waiter, now)
    redis.pcall('HSET', key('waiting', name), '+' .. waiter, now)
  end

  -- expect_all calls expect for several names, if the waiter has an entry there and is not expected yet. It has
  -- no entry if the node was out of memory when the waiter came. Such a node accepts all writes after the first
  -- write of a script. So the waiter could be expected without an entry, and remain so without an end.
  local function expect_all(names, waiter, now)
    for _, name in ipairs(names) do
      local deadline, since = known(name, waiter)
      if deadline and not since then
        expect(name, waiter, now)
      end
    end
  end

  -- attempts is the maximum of dead waiters that one call removes per name.
  local attempts = 1000

  -- sound raises an error if one of the keys of a queue has another type.
  local function sound(name, waiter)
    redis.call('ZSCORE', key('queue', name), waiter or '')
    local indexed = redis.call('HGET', key('waiting', name), '+')
    if not pooled and (indexed or waiter and reads(waiter)) then
      redis.call('ZSCORE', key('writers', name), '')
    end
  end

  -- index makes the index of the writers in a queue.
  local function index(name, left)
    local from = 0
    repeat
      local some, writers = redis.call('ZRANGE', key('queue', name), from, from + 499, 'WITHSCORES'), {}
      for i = 1, #some, 2 do
        if not reads(some[i]) then
          writers[#writers + 1] = some[i + 1]
          writers[#writers + 1] = some[i]
        end
      end
      if writers[1] then
        redis.call('ZADD', key('writers', name), unpack(writers))
        redis.call('PEXPIRE', key('writers', name), left)
      end
      from = from + 500
    until #some < 1000
  end

  -- enter gives a waiter an entry for keep ms from now. An existing entry keeps its ticket, and
  -- never gets an earlier deadline. It keeps its deadline if that is late enough but for a 32nd of
  -- keep. So a waiter that comes often costs no write. The same holds for the life of the keys.
  local function enter(name, waiter, ticket, keep, now)
    prune(name, now)
    local queue, waiting = key('queue', name), key('waiting', name)
    local state = redis.call('HMGET', waiting, '', '-', '+', waiter)
    local due, ends, deadline = tonumber(state[1]), tonumber(state[2]), tonumber(state[4])
    local fresh, slack, fields = now + keep, keep / 32, {}
    local added = redis.call('ZADD', queue, 'NX', ticket, waiter)
    if not deadline or fresh - deadline > slack then
      fresh = math.max(fresh, deadline or fresh)
      fields = {waiter, fresh}
      if not due or fresh < due then
        fields[3], fields[4] = '', fresh
      end
    end
    if ends and ends >= 2 ^ 53 then
      ends = nil -- of another program
    end
    local longer = not ends or now + keep - ends > slack or (added == 1 or not deadline) and redis.call('ZRANK', queue, waiter) == 0
    ends = math.max(now + keep, ends or 0)
    if longer then
      fields[#fields + 1] = '-'
      fields[#fields + 1] = ends
    end
    local reader = not pooled and reads(waiter)
    if reader and not state[3] then
      index(name, ends - now)
      fields[#fields + 1] = '+'
      fields[#fields + 1] = 1
    elseif state[3] and not reader then
      redis.call('ZADD', key('writers', name), 'NX', ticket, waiter)
      redis.call('PEXPIRE', key('writers', name), ends - now)
    end
    if fields[1] then
      redis.call('HSET', waiting, unpack(fields))
    end
    if longer then
      -- include inline/queued
      redis.call('PEXPIRE', queue, ends - now)
      redis.call('PEXPIRE', waiting, ends - now)
    end
  end

  -- enter_all enters a waiter into the queues of several names. A node that is out of memory makes
  -- no entry; the waiter then has to come again by itself.
  local function enter_all(names, waiter, ticket, keep, now)
    for _, name in ipairs(names) do
      local ok, err = pcall(enter, name, waiter, ticket, keep, now)
      if not ok then
        local text = type(err) == 'table' and err.err or err -- a string before Redis 7
        if not string.find(text, 'OOM', 1, true) then
          error(err, 0)
        end
      end
    end
  end

  -- came records that a waiter is no longer expected. It is called when the waiter has come and
  -- another owner holds the names, or the first waiter has its turn. In all other cases the waiter
  -- stays expected: otherwise its attempts without a quorum could keep the name from those behind
  -- it for ever.
  local function came(names, waiter)
    for _, name in ipairs(waiter and names or {}) do
      redis.call('HDEL', key('waiting', name), '+' .. waiter)
    end
  end

  -- patience returns for how many ms a free name is left to a woken waiter: the number at the end
  -- of its id, within bounds.
  local function patience(waiter)
    return math.min(math.max(tonumber(string.match(waiter, '@(%d+)r?$')) or 0, 50), 500)
  end

  -- places bounds how far down a queue one call looks for a waiter that is not frozen.
  local places = 100

  -- precedence returns how many ms a waiter must leave a free name to another, or nil, and whether
  -- that other is the first in the queue. An earlier waiter takes precedence, unless it was woken
  -- more than patience ms ago and has not come since. A waiter that was not woken yet is woken now.
  -- Behind one that has not come, all are woken, so that any number of frozen waiters costs two
  -- patiences.
  local function precedence(name, waiter, now)
    local place, dead, left = 0, 0, nil
    while dead < attempts and place < places do
      local other = redis.call('ZRANGE', key('queue', name), place, place)[1]
      if not other or other == waiter then
        return left, false
      end
      local deadline, since = known(name, other)
      if since and since + patience(other) > now then
        return left or since + patience(other) - now, place == 0
      elseif since then
        place = place + 1
      elseif deadline and reached('woken', name, other) then
        expect(name, other, now)
        if place == 0 then
          return patience(other), true
        end
        place, left = place + 1, math.max(left or 0, patience(other))
      else
        dropped(name, other)
        dead = dead + 1
      end
    end
    return left or dead == attempts and patience('') or nil, false
  end

  -- writer returns the first writer before a waiter, the time since which it is expected, if it is,
  -- its rank in the queue, and how many writers it skipped: those that were woken more than patience
  -- ms ago and have not come since. It removes entries of the index whose waiter is no longer in the
  -- queue.
  --
  -- Without an index, the queue has no readers and is the index itself.
  local function writer(name, waiter, now)
    local rank = waiter and redis.call('ZRANK', key('queue', name), waiter)
    local indexed = redis.call('HGET', key('waiting', name), '+')
    local place, skipped = 0, 0
    while true do
      local other = redis.call('ZRANGE', key(indexed and 'writers' or 'queue', name), place, place)[1]
      if not other then
        return nil
      end
      local before = redis.call('ZRANK', key('queue', name), other)
      if not before then
        redis.call('ZREM', key('writers', name), other)
      elseif rank and before >= rank then
        return nil
      elseif reads(other) then
        place = place + 1 -- only if the hash was lost
      else
        local _, since = known(name, other)
        if not since or since + patience(other) > now then
          return other, since, before, skipped
        end
        place, skipped = place + 1, skipped + 1
      end
    end
  end

  -- intent returns how many ms a reader must leave a name to an earlier writer, or nil, and whether
  -- only that writer is next. On a free name, readers before the writer have their turn first, like
  -- any earlier waiter. Then the writer is woken, unless it was before.
  local function intent(name, waiter, now, free)
    local dead = 0
    while dead < attempts do
      local other, since, before, skipped = writer(name, waiter, now)
      if not other then
        return nil, false
      elseif not free then
        return math.max(redis.call('PTTL', name), 1), true
      elseif since then
        return since + patience(other) - now, before == 0
      end
      local left, first
      if before > skipped then
        left, first = precedence(name, other, now)
      end
      if left then
        return left, first
      elseif reached('woken', name, other) then
        expect(name, other, now)
        return patience(other), before == 0
      end
      dropped(name, other)
      dead = dead + 1
    end
    return patience(''), false
  end

  -- wake wakes the first waiter of a free name, and sends standby to the next. It drops a waiter
  -- that the message does not reach: it is dead. A waiter that was woken before and has used up its
  -- patience may be frozen, so the next is woken too. At most three frozen ones are woken again.
  -- If except gave the name back after a partial grant, the first other waiter only gets 'returned':
  -- no other waiter can use the name yet.
  -- Readers share the name. If the first waiter is a reader, all readers before the first writer are
  -- woken, also on a name that only readers hold. A reader that is expected there wakes those behind
  -- it when it comes.
  local function wake(name, except)
    if redis.pcall('EXISTS', key('queue', name)) ~= 1 then
      return
    end
    local shared = redis.call('EXISTS', name) == 1
    if shared and (except or redis.pcall('HGET', name, 'quorumlock:readers') ~= '1') then
      return
    end
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    prune(name, now)
    -- While other readers hold the name, no more are woken while more than half a batch is
    -- expected. Otherwise each reader of a crowd would look past all expected ones, to wake one
    -- more. Waiters are woken in order.
    local middle = shared and redis.call('ZRANGE', key('queue', name), places / 2, places / 2)[1]
    if middle and redis.call('HGET', key('waiting', name), '+' .. middle) then
      return
    end
    local place, dead = 0, 0
    local kind, spare, reading = 'woken', 3, shared
    if except then
      kind, spare = 'returned', 1
    end
    while dead < attempts and place < places do
      local waiter = redis.call('ZRANGE', key('queue', name), place, place)[1]
      if not waiter then
        return
      end
      local deadline, since = known(name, waiter)
      local frozen = since and since + patience(waiter) <= now
      local writes = reading and not reads(waiter)
      if shared and not frozen and (writes or since) then
        return
      end
      local message = writes and 'standby' or kind
      if waiter == except or frozen and (writes or spare == 0) then
        place = place + 1
      elseif not deadline or not reached(message, name, waiter) then
        dropped(name, waiter)
        dead = dead + 1
      elseif message == 'standby' then
        return
      else
        if kind == 'woken' and not since then
          expect(name, waiter, now)
        end
        place = place + 1
        if frozen then
          spare = spare - 1
        elseif kind == 'returned' then
          return
        elseif reads(waiter) then
          reading = true
        else
          kind = 'standby'
        end
      end
    end
  end

  -- rejoin enters a waiter into the queues of names that it gave back, or removes it from them if
  -- keep is nil. It ignores errors, since they concern only this waiter. The waiter counts as
  -- expected since it took the names: it keeps its place and gets no new privilege. Otherwise a
  -- waiter that never reaches a quorum could keep the names from all others by taking them again
  -- and again. If denied is set, it had none of them: it is not expected, and waits as before.
  local function rejoin(names, waiter, ticket, keep, denied)
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    for _, name in ipairs(names) do
      if keep then
        if pcall(enter, name, waiter, ticket, keep, now) and not denied then
          pcall(expect_all, {name}, waiter, now)
        end
      else
        pcall(dropped, name, waiter)
      end
    end
  end

  -- wake_all wakes the waiters of several names and ignores all errors, such as a key of another
  -- type or a missing right. The release before it has succeeded, and a repetition would not help.
  -- Waiters come again by themselves.
  local function wake_all(names, except)
    for _, name in ipairs(names) do
      pcall(wake, name, except)
    end
  end

  return {sound = sound, enter_all = enter_all, came = came, expect_all = expect_all, rejoin = rejoin, precedence = precedence, intent = intent, dropped = dropped, wake_all = wake_all,
    prune_all = prune_all, prune = prune, reached = reached, expect = expect, known = known, patience = patience}
end
