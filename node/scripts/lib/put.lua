-- token_of returns the largest token that the holder of a name may use, which put has stored. It
-- returns 0 for readers, and for clients of Redisson, which store a count: tokens have 15 digits at
-- least, since 1973.
local function token_of(name, holder)
  local token = redis.call('HGET', name, holder)
  return #token >= 15 and tonumber(token) or 0
end

-- put makes a lock with its TTL and the owner's token. It returns nothing, or the error, for example
-- a missing right. After an error the lock is absent: no lock is ever without a TTL.
--
-- If the owner has the lock already, the longer life and the larger token stay. This may be a late
-- acquisition, behind a renewal with a longer TTL, on which the owner relies by now.
local function put(name, owner, ttl, token, own)
  if own then
    if token_of(name, owner) < tonumber(token) then
      redis.call('HSET', name, owner, token)
    end
    if redis.call('PTTL', name) < tonumber(ttl) then
      redis.call('PEXPIRE', name, ttl)
    end
    return nil
  end
  redis.call('HSET', name, owner, token)
  local set = redis.pcall('PEXPIRE', name, ttl)
  if set ~= 1 then
    -- A user with few rights may be allowed only one of the two commands.
    if redis.pcall('HDEL', name, owner) ~= 1 then
      redis.pcall('DEL', name)
    end
    return set
  end
end
