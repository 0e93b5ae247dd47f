-- The readers of a name hold its lock together: as long as there is one, the lock is a hash
-- with this as its one field, in the place of an owner, and lives as long as the reader that
-- lives longest. So whoever looks for an owner finds one that is not its own. Who they are
-- stands in a sorted set, by when each of them ends, in ms of the node's clock.
local readers = 'quorumlock:readers'

-- longest is when the last reader of a name ends, or 0.
local function longest(name)
  return tonumber(redis.call('ZRANGE', key('readers', name), -1, -1, 'WITHSCORES')[2]) or 0
end

-- reading reports whether an owner reads a name now.
local function reading(name, owner, now)
  return (tonumber(redis.call('ZSCORE', key('readers', name), owner)) or 0) > now
end

-- each calls a function with every reader of a name and how many ms it has left, if readers are
-- who holds it.
local function each(name, holder, call)
  if holder ~= readers then
    return
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local all = redis.call('ZRANGE', key('readers', name), 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do
    if tonumber(all[i + 1]) > now then
      call(all[i], all[i + 1] - now)
    end
  end
end

-- settle forgets the readers that have ended, and lets the lock go with the last of them. It
-- returns true if nobody reads the name any more.
local function settle(name, now)
  local over
  repeat
    over = redis.call('ZRANGE', key('readers', name), '-inf', now, 'BYSCORE', 'LIMIT', 0, 1000)
    if #over > 0 then
      redis.call('ZREM', key('readers', name), unpack(over))
    end
  until #over < 1000
  local last = longest(name)
  if last == 0 then
    redis.call('DEL', name)
    return true
  end
  redis.call('PEXPIRE', name, last - now)
  redis.call('PEXPIRE', key('readers', name), last - now)
  return false
end

-- share has an owner read a name for ttl ms from now, or longer if it does already. The lock is
-- there already, or made if it is absent. It returns nothing, or what kept the node from making it.
--
-- What fails does so at the first write: of an absent lock, a node that is out of memory does
-- nothing at all. One that is there is first made to live longer, which such a node does, and
-- behind which it does the rest.
local function share(name, owner, ttl, now, absent)
  local life = math.max(longest(name) - now, ttl)
  if not absent then
    redis.call('PEXPIRE', name, life)
  end
  redis.call('ZADD', key('readers', name), 'GT', now + ttl, owner)
  redis.call('PEXPIRE', key('readers', name), life)
  if absent then
    return put(name, readers, life)
  end
end
