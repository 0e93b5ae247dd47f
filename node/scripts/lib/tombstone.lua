-- The tombstones of a name are a hash: for each owner that was forced off, when its tombstone ends, in ms. One key for all
-- can be declared, since the owners are not known before.

-- buried reports whether an owner was forced off a name. now is in us.
local function buried(name, owner, now)
  return (tonumber(redis.call('HGET', key('tombstone', name), owner)) or 0) > now / 1000
end

-- graves has the ends of the tombstones of each name that this call has read.
local graves = {}

-- bury makes a tombstone that lives for ttl ms at least. For the first one of a name, it removes those that have ended. It
-- reads the others once only, since many readers may be forced off together.
local function bury(name, owner, ttl, now)
  local tombstones, ends = key('tombstone', name), graves[name]
  if not ends then
    ends = {}
    graves[name] = ends
    for _, other in ipairs(redis.call('HKEYS', tombstones)) do
      ends[other] = tonumber(redis.call('HGET', tombstones, other)) or 0
      if ends[other] <= now then
        redis.call('HDEL', tombstones, other)
      end
    end
  end
  ends[owner] = math.max(now + ttl, ends[owner] or 0)
  redis.call('HSET', tombstones, owner, ends[owner])
  if redis.call('PTTL', tombstones) < ends[owner] - now then
    redis.call('PEXPIRE', tombstones, ends[owner] - now)
  end
end
