-- extend makes a name that an owner has live for another TTL, and reports whether it has it.
local function extend(name, owner, ttl, text)
  if not redis.call('HGET', name, owner) then
    return false
  end
  if redis.call('PTTL', name) < ttl then
    redis.call('PEXPIRE', name, text)
  end
  return true
end
