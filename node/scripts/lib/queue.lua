-- queues returns the functions on the queues of names. Most scripts find no waiters and do not need
-- them.
--
-- The queue of a name consists of three sorted sets of waiters:
--
--   queue    by ticket, then by id: the order in which waiters are served
--   waiting  by deadline: a waiter that has not come by then no longer waits
--   woken    by the time since which a woken waiter is expected
--
-- A fourth set, writers, is an index of the queue: its waiters that are not readers, by ticket.
-- With it a reader finds the writer before it, however many readers wait.
--
-- Times are in ms of the node's clock. The keys live as long as the longest deadline so far. A
-- waiter in waiting or woken is always in queue too, and woken never outlives queue: otherwise its
-- waiters would stay behind. All functions except wake_all raise an error at a key of another type.
--
-- The queue of a pool has no index, since slots have no readers. pooled says that it is one.
local function queues(pooled)
  -- reads reports whether a waiter is a reader: its id ends in r.
  local function reads(waiter)
    return string.find(waiter, '@%d*r$') ~= nil
  end

  -- dropped removes waiters from the queue of a name, and returns how many there were.
  local function dropped(name, ...)
    redis.call('ZREM', key('woken', name), ...)
    redis.call('ZREM', key('waiting', name), ...)
    if not pooled and not (select('#', ...) == 1 and reads(...)) then
      redis.call('ZREM', key('writers', name), ...)
    end
    return redis.call('ZREM', key('queue', name), ...)
  end

  -- prune removes the waiters that are past their deadlines.
  local function prune(name, now)
    local late
    repeat
      late = redis.call('ZRANGE', key('waiting', name), '-inf', now, 'BYSCORE', 'LIMIT', 0, 1000)
      if #late > 0 then
        dropped(name, unpack(late))
      end
    until #late < 1000
  end

  -- silent holds the inboxes without a subscriber that this call has found. It saves messages,
  -- since a client that is gone may leave many waiters.
  local silent = {}

  -- reached sends a message to the inbox of a waiter's client, and reports whether the inbox has a
  -- subscriber. The inbox is the part of the waiter's id before the first colon. The name comes
  -- last, since it may hold any bytes.
  local function reached(kind, name, waiter)
    local inbox = 'quorumlock:inbox:' .. string.match(waiter, '^[^:]*')
    if not silent[inbox] then
      local token = string.format('%.0f', fence(name))
      silent[inbox] = redis.call('PUBLISH', inbox, kind .. ' ' .. token .. ' ' .. #waiter .. ' ' .. waiter .. name) == 0
    end
    return not silent[inbox]
  end

  -- expect records when a waiter of the queue was woken. If it was woken before and has not come
  -- since, the earlier time stays. It uses pcall: a node without memory cannot record the time, but
  -- the waiter has been woken all the same.
  local function expect(name, waiter, now)
    local left = redis.call('PTTL', key('queue', name))
    if left > 0 then
      redis.pcall('ZADD', key('woken', name), 'NX', now, waiter)
      redis.pcall('PEXPIRE', key('woken', name), left)
    end
  end

  -- expect_all calls expect for several names, if the waiter has an entry there. It has none if the node
  -- was out of memory when the waiter came. Such a node accepts all writes after the first write of
  -- a script. So the waiter could be expected without an entry, and remain so after the queue is
  -- gone.
  local function expect_all(names, waiter, now)
    for _, name in ipairs(names) do
      if redis.call('ZSCORE', key('queue', name), waiter) then
        expect(name, waiter, now)
      end
    end
  end

  -- attempts is the maximum of dead waiters that one call removes per name.
  local attempts = 1000

  -- sound raises an error if one of the keys of a queue has another type.
  local function sound(name, waiter)
    waiter = waiter or ''
    redis.call('ZSCORE', key('queue', name), waiter)
    redis.call('ZSCORE', key('waiting', name), waiter)
    redis.call('ZSCORE', key('woken', name), waiter)
    if not pooled then
      redis.call('ZSCORE', key('writers', name), waiter)
    end
  end

  -- enter gives a waiter an entry for keep ms from now. An existing entry keeps its ticket, and
  -- never gets an earlier deadline.
  local function enter(name, waiter, ticket, keep, now)
    prune(name, now)
    local left = math.max(keep, redis.call('PTTL', key('queue', name)))
    if not pooled and not reads(waiter) then
      redis.call('ZADD', key('writers', name), 'NX', ticket, waiter)
      redis.call('PEXPIRE', key('writers', name), left)
    end
    redis.call('ZADD', key('queue', name), 'NX', ticket, waiter)
    redis.call('PEXPIRE', key('queue', name), left)
    redis.call('ZADD', key('waiting', name), 'GT', now + keep, waiter)
    redis.call('PEXPIRE', key('waiting', name), left)
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
    for _, name in ipairs(names) do
      redis.call('ZREM', key('woken', name), waiter or '')
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
      local since = redis.call('ZSCORE', key('woken', name), other)
      if since and since + patience(other) > now then
        return left or since + patience(other) - now, place == 0
      elseif since then
        place = place + 1
      elseif reached('woken', name, other) then
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
  local function writer(name, waiter, now)
    local rank = waiter and redis.call('ZRANK', key('queue', name), waiter)
    local place = 0
    while true do
      local other = redis.call('ZRANGE', key('writers', name), place, place)[1]
      if not other then
        return nil
      end
      local before = redis.call('ZRANK', key('queue', name), other)
      if not before then
        redis.call('ZREM', key('writers', name), other)
      elseif rank and before >= rank then
        return nil
      else
        local since = redis.call('ZSCORE', key('woken', name), other)
        if not since or since + patience(other) > now then
          return other, since, before, place
        end
        place = place + 1
      end
    end
  end

  -- intent returns how many ms a reader must leave a name to an earlier writer, or nil, and whether
  -- only that writer is next. If the name is free, and no reader waits before the writer, it is woken
  -- now unless it was before.
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
      elseif before > skipped then
        return patience(other), false
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
    -- While other readers hold the name, no more are woken while more than half a batch is
    -- expected. Otherwise each reader of a crowd would look past all expected ones, to wake one
    -- more.
    if shared and redis.call('ZRANGE', key('woken', name), places / 2, places / 2)[1] then
      return
    end
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    prune(name, now)
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
      local since = redis.call('ZSCORE', key('woken', name), waiter)
      local frozen = since and since + patience(waiter) <= now
      local writes = reading and not reads(waiter)
      if shared and not frozen and (writes or since) then
        return
      end
      local message = writes and 'standby' or kind
      if waiter == except or frozen and (writes or spare == 0) then
        place = place + 1
      elseif not reached(message, name, waiter) then
        dropped(name, waiter)
        dead = dead + 1
      elseif message == 'standby' then
        return
      else
        if kind == 'woken' then
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
  -- and again.
  local function rejoin(names, waiter, ticket, keep)
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    for _, name in ipairs(names) do
      if keep then
        if pcall(enter, name, waiter, ticket, keep, now) then
          expect(name, waiter, now)
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
    prune = prune, reached = reached, expect = expect, patience = patience}
end
