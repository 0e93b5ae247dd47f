-- sound raises an error if one of the keys of a queue has another type.
local function sound(name, waiter)
  redis.call('ZSCORE', key('queue', name), waiter)
  redis.call('ZSCORE', key('waiting', name), waiter)
  redis.call('ZSCORE', key('woken', name), waiter)
end

-- enter gives a waiter an entry, for keep ms from now. One that it has keeps its ticket,
-- and never lives shorter. A waiter that enters is not expected any more: it has come.
local function enter(name, waiter, ticket, keep, now)
  prune(name, now)
  local last = redis.call('ZRANGE', key('waiting', name), -1, -1, 'WITHSCORES')[2]
  local left = math.max(keep, (tonumber(last) or 0) - now)
  redis.call('ZADD', key('queue', name), 'NX', ticket, waiter)
  redis.call('PEXPIRE', key('queue', name), left)
  redis.call('ZADD', key('waiting', name), 'GT', now + keep, waiter)
  redis.call('PEXPIRE', key('waiting', name), left)
  redis.call('ZREM', key('woken', name), waiter)
end

-- precedence is how many ms a waiter has to leave a free name to another, or nil. That is
-- whoever stands before it, and was not woken more than patience ms ago without coming
-- since. One that was not woken yet is woken now.
local function precedence(name, waiter, patience, now)
  local place = 0
  for _ = 1, attempts do
    local other = redis.call('ZRANGE', key('queue', name), place, place)[1]
    if not other or other == waiter then
      return nil
    end
    local since = redis.call('ZSCORE', key('woken', name), other)
    if since and since + patience > now then
      return since + patience - now
    elseif since then
      place = place + 1
    elseif reached('woken', name, other) then
      expect(name, other, now)
      return patience
    else
      dropped(name, other)
    end
  end
  return patience
end
