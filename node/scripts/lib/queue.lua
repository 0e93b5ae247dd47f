-- The queue of a name is three sorted sets of waiters:
--
--   queue    by ticket, and by id where tickets are the same: the order of their turns
--   waiting  by deadline: who has not come until then, waits no longer
--   woken    by the time since when those who were woken are expected
--
-- Times are in ms of the node's clock. The keys live as long as the longest deadline that
-- there was when an entry was made, and no waiter stands in the other two without one in
-- the first. What follows raises an error at a key of another type.

-- dropped takes waiters out of the queue of a name, and returns how many there were.
local function dropped(name, ...)
  redis.call('ZREM', key('woken', name), ...)
  redis.call('ZREM', key('waiting', name), ...)
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

-- reached sends a message to the inbox of a waiter's client, which is the part of its id
-- before the first colon, and reports whether anybody listens there. The name stands last,
-- as it may hold any bytes.
local function reached(kind, name, waiter)
  local fence = redis.call('GET', key('fence', name)) or '0'
  local inbox = 'quorumlock:inbox:' .. string.match(waiter, '^[^:]*')
  return redis.call('PUBLISH', inbox, kind .. ' ' .. fence .. ' ' .. #waiter .. ' ' .. waiter .. name) > 0
end

-- expect notes when a waiter was woken. Who was woken before and has not come since, is
-- expected since then.
local function expect(name, waiter, now)
  redis.call('ZADD', key('woken', name), 'NX', now, waiter)
  redis.call('PEXPIRE', key('woken', name), redis.call('PTTL', key('queue', name)))
end

-- attempts bounds how many dead waiters one call deals with for each name.
local attempts = 64
