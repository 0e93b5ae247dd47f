-- The tombstones of a name are a hash: for each owner that was forced off, when its tombstone ends, in ms. One key for all
-- can be declared, since the owners are not known before.

-- buried reports whether an owner was forced off a name. now is in us.
local function buried(name, owner, now)
  return (tonumber(redis.call('HGET', key('tombstone', name), owner)) or 0) > now / 1000
end

-- bury makes a tombstone that lives for ttl ms at least, and removes those that have ended. It comes before the lock is
-- removed, so an error leaves the lock.
local function bury(name, owner, ttl, now)
  ttl = tonumber(ttl)
  local graves, longest, ended = key('tombstone', name), ttl, {}
  local owners = redis.call('HKEYS', graves)
  for i, ends in ipairs(owners[1] and redis.call('HMGET', graves, unpack(owners)) or {}) do
    local left = (tonumber(ends) or 0) - now
    longest = math.max(longest, left)
    if owners[i] == owner then
      ttl = math.max(ttl, left)
    elseif left <= 0 then
      ended[#ended + 1] = owners[i]
    end
  end
  redis.call('HSET', graves, owner, now + ttl)
  redis.call('PEXPIRE', graves, longest)
  if ended[1] then
    redis.call('HDEL', graves, unpack(ended))
  end
end
