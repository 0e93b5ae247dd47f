-- queues makes the functions about the queues of names. Most scripts find that nobody waits,
-- and do without.
--
-- The queue of a name is three sorted sets of waiters:
--
--   queue    by ticket, and by id where tickets are the same: the order of their turns
--   waiting  by deadline: who has not come until then, waits no longer
--   woken    by the time since when those who were woken are expected
--
-- A fourth one, writers, is an index of the queue: the waiters of it that do not wait in order to
-- read, by ticket. A reader finds the writer before it there, however many readers wait.
--
-- Times are in ms of the node's clock. The keys live as long as the longest deadline that
-- there ever was. No waiter stands in the other two without one in the first, and woken never
-- lives longer than the first: else it would stay behind. What follows raises an error at a key of another type, but for wake_all.
--
-- The queue of a pool has no index, as its slots have no readers: pooled is set for it.
local function queues(pooled)
  -- reads reports whether a waiter does so in order to read: its id ends with that.
  local function reads(waiter)
    return string.find(waiter, '@%d*r$') ~= nil
  end

  -- dropped takes waiters out of the queue of a name, and returns how many there were.
  local function dropped(name, ...)
    redis.call('ZREM', key('woken', name), ...)
    redis.call('ZREM', key('waiting', name), ...)
    if not pooled and not (select('#', ...) == 1 and reads(...)) then
      redis.call('ZREM', key('writers', name), ...)
    end
    return redis.call('ZREM', key('queue', name), ...)
  end

  -- prune takes out who is past the deadline.
  local function prune(name, now)
    local late
    repeat
      late = redis.call('ZRANGE', key('waiting', name), '-inf', now, 'BYSCORE', 'LIMIT', 0, 1000)
      if #late > 0 then
        dropped(name, unpack(late))
      end
    until #late < 1000
  end

  -- silent are the inboxes to which nobody listens, as far as this call knows: a client that
  -- is gone may leave many waiters.
  local silent = {}

  -- reached sends a message to the inbox of a waiter's client, which is the part of its id
  -- before the first colon, and reports whether anybody listens there. The name stands last,
  -- as it may hold any bytes.
  local function reached(kind, name, waiter)
    local inbox = 'quorumlock:inbox:' .. string.match(waiter, '^[^:]*')
    if not silent[inbox] then
      local fence = redis.call('GET', key('fence', name)) or '0'
      silent[inbox] = redis.call('PUBLISH', inbox, kind .. ' ' .. fence .. ' ' .. #waiter .. ' ' .. waiter .. name) == 0
    end
    return not silent[inbox]
  end

  -- expect notes when a waiter of the queue was woken. A waiter that was woken before and has not come
  -- since is expected since then. It has been woken all the same where the node has no memory to note
  -- it, hence pcall.
  local function expect(name, waiter, now)
    local left = redis.call('PTTL', key('queue', name))
    if left > 0 then
      redis.pcall('ZADD', key('woken', name), 'NX', now, waiter)
      redis.pcall('PEXPIRE', key('woken', name), left)
    end
  end

  -- expect_all does that for several names, where the waiter has an entry. It has none if the node
  -- was out of memory when the waiter came. Such a node takes all writes once a script has written
  -- something. So the waiter could be expected without an entry, and stay so when the queue has gone.
  local function expect_all(names, waiter, now)
    for _, name in ipairs(names) do
      if redis.call('ZSCORE', key('queue', name), waiter) then
        expect(name, waiter, now)
      end
    end
  end

  -- attempts bounds how many dead waiters one call deals with for each name.
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

  -- enter gives a waiter an entry, for keep ms from now. One that it has keeps its ticket,
  -- and never lives shorter.
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

  -- enter_all has a waiter enter the queues of several names. A node that is out of memory has
  -- no entry for it: then it has to come again by itself.
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

  -- came notes that a waiter is not expected any more: it has come, and somebody else had the
  -- names, or the first in line is having its turn. Else it stays expected: those behind it
  -- would not get a name for as long as it comes in vain, nor if many do.
  local function came(names, waiter)
    for _, name in ipairs(names) do
      redis.call('ZREM', key('woken', name), waiter or '')
    end
  end

  -- patience is how many ms a free name is left to a waiter that was woken: what its id ends
  -- with, within bounds.
  local function patience(waiter)
    return math.min(math.max(tonumber(string.match(waiter, '@(%d+)r?$')) or 0, 50), 500)
  end

  -- places bounds how far down a queue one call looks for a waiter that is not frozen.
  local places = 100

  -- precedence is how many ms a waiter has to leave a free name to another, or nil, and whether
  -- that is the first in the queue. It is whoever stands before it, and was not woken more than
  -- patience ms ago without coming since. One that was not woken yet is woken now; behind one
  -- who has not come, all of them are, so that any number of frozen ones costs two patiences.
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

  -- writer is the first in the queue before a waiter that does not wait in order to read, and
  -- was not woken more than patience ms ago without coming since; since when it is expected, if
  -- it is, and whether it is the first of all. An entry of the index may be left over from a waiter
  -- whose own entry has expired: it goes.
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
          return other, since, before == 0
        end
        place = place + 1
      end
    end
  end

  -- intent is how many ms a reader has to leave a name to a writer that came before, or nil, and
  -- whether it is that one's turn, and nobody's else. On a name that is free, the first in the
  -- queue that was not woken yet is woken now.
  local function intent(name, waiter, now, free)
    local dead = 0
    while dead < attempts do
      local other, since, first = writer(name, waiter, now)
      if not other then
        return nil, false
      elseif not free then
        return math.max(redis.call('PTTL', name), 1), true
      elseif since or not first then
        return since and since + patience(other) - now or patience(other), first
      elseif reached('woken', name, other) then
        expect(name, other, now)
        return patience(other), true
      end
      dropped(name, other)
      dead = dead + 1
    end
    return patience(''), false
  end

  -- wake wakes the first waiter of a name that is free, and tells the next to stand by. Whom a
  -- message does not reach is dead, and is taken out; who was woken before, and has lost its
  -- patience, may be frozen, so the next is woken too, behind three of those without them.
  -- Where a waiter gave back what it cannot use yet, the first but itself only gets to know:
  -- nobody else can use it yet either.
  -- Those who wait in order to read share the name: if the first does, all are woken that stand
  -- before the first writer. So they are on a name that others read already, where nobody else
  -- is. One that has been woken and is expected there wakes those behind it when it has come.
  local function wake(name, except)
    if redis.pcall('EXISTS', key('queue', name)) ~= 1 then
      return
    end
    local shared = redis.call('EXISTS', name) == 1
    if shared and (except or redis.pcall('HGET', name, 'quorumlock:readers') ~= '1') then
      return
    end
    -- Beside readers, no more are woken while more than half a batch is expected. Else each reader of
    -- a crowd would look past all expected ones, to wake one more.
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

  -- rejoin has a waiter enter the queues of names that it gave back, or leave those of names
  -- that it wants no more, if keep is none. What fails of that concerns nobody else. Who gave
  -- them back was expected since it took them: it has its place, and no new privilege. Else
  -- one that takes them again and again, and never gets the other nodes that it needs, would
  -- keep them from everybody.
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

  -- wake_all does that for several names, whatever fails: a key of another type, a user with
  -- fewer rights. That is no failure of what made the names free, and to repeat it would not
  -- help. Who waits comes again by itself.
  local function wake_all(names, except)
    for _, name in ipairs(names) do
      pcall(wake, name, except)
    end
  end

  return {sound = sound, enter_all = enter_all, came = came, expect_all = expect_all, rejoin = rejoin, precedence = precedence, intent = intent, dropped = dropped, wake_all = wake_all,
    prune = prune, reached = reached, expect = expect, patience = patience}
end
