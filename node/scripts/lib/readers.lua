-- Readers of a name hold its lock together. While there is one, the lock is a hash with this field
-- in the place of an owner, and lives as long as its longest reader. So a script that looks for an
-- owner finds one that is not its own. A sorted set has the readers themselves, by the time at
-- which each ends, in ms of the node's clock.
local readers = 'quorumlock:readers'

-- longest returns when the last reader of a name ends, except one of them, or 0.
local function longest(name, except)
  local last = redis.call('ZRANGE', key('readers', name), -2, -1, 'WITHSCORES')
  local at = #last
  if last[at - 1] == except then
    at = at - 2
  end
  return tonumber(last[at]) or 0
end

-- reading reports whether an owner reads a name now.
local function reading(name, owner, now)
  return (tonumber(redis.call('ZSCORE', key('readers', name), owner)) or 0) > now
end

-- each calls a function with every reader of a name and its remaining ms, if the holder is readers.
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

-- settle removes a reader, and the readers that have ended. With the last one it removes the lock. It returns
-- true if the name has no reader left. While a slot of a cluster moves, a key that is gone cannot be
-- read any more. So it reads before it removes.
local function settle(name, now, reader)
  local last = longest(name, reader)
  if last <= now then
    redis.call('HDEL', name, readers)
    redis.call('DEL', key('readers', name))
    return true
  end
  redis.call('ZREM', key('readers', name), reader)
  local over
  repeat
    over = redis.call('ZRANGE', key('readers', name), '-inf', now, 'BYSCORE', 'LIMIT', 0, 1000)
    if #over > 0 then
      redis.call('ZREM', key('readers', name), unpack(over))
    end
  until #over < 1000
  redis.call('PEXPIRE', name, last - now)
  redis.call('PEXPIRE', key('readers', name), last - now)
  return false
end

-- unread ends an owner's reading of a name. It also removes a name that the owner holds as a writer: the node may have missed
-- its downgrade. Its arguments and results are those of give. A key of another type is not the owner's, and one in the place of
-- the readers must not keep a writer from being removed.
local function unread(name, owner, told, now)
  local ok, own, free = pcall(function()
    local ok, reads = pcall(reading, name, owner, now)
    if ok and reads then
      local shared = redis.pcall('HGET', name, readers)
      if shared and not shared.err then
        return true, settle(name, now, owner)
      end
      -- While a cluster's slot moves, the lock may be on another server. Then nothing is removed.
      if not shared or string.find(shared.err, 'WRONGTYPE', 1, true) then
        redis.call('ZREM', key('readers', name), owner)
      end
      if shared then
        error(shared.err, 0)
      end
      return true, false
    end
    local own = redis.call('HDEL', name, owner) == 1
    if not ok and not own then
      error(reads, 0)
    end
    return own, own
  end)
  if ok then
    if free and told then
      announce(name)
    end
    return own and 1 or 0
  end
  local text = type(own) == 'table' and own.err or own -- a string before Redis 7
  return string.find(text, 'WRONGTYPE', 1, true) and 0 or {err = text}
end

-- share lets an owner read a name for ttl ms from now, or longer if it does already. It makes the
-- lock if absent is set. It returns nothing, or the error that kept the node from making it.
--
-- An error can only occur at the first write. If the lock is absent, a node that is out of memory
-- changes nothing. If the lock exists, its life is extended first: such a node does that, and then
-- accepts the other writes.
local function share(name, owner, ttl, now, absent)
  local life = math.max(longest(name) - now, ttl)
  if not absent then
    redis.call('PEXPIRE', name, life)
  end
  redis.call('ZADD', key('readers', name), 'GT', now + ttl, owner)
  redis.call('PEXPIRE', key('readers', name), life)
  if absent then
    return put(name, readers, life, '1')
  end
end
