-- put makes a lock, with its TTL. It returns nothing, or what kept the node from giving it one,
-- such as a user's rights: then there is no lock, as none is ever without a TTL.
local function put(name, owner, ttl)
  redis.call('HSET', name, owner, '1')
  local set = redis.pcall('PEXPIRE', name, ttl)
  if set ~= 1 then
    -- A user with few rights may have one of these, and not the other.
    if redis.pcall('HDEL', name, owner) ~= 1 then
      redis.pcall('DEL', name)
    end
    return set
  end
end
