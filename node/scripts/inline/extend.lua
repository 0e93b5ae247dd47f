-- Extend a name that the owner holds to another TTL. The fence needs no change if it is at least
-- the token, or if the node would refuse any smaller token. prolong handles a fence that cannot be
-- read: it may be so old that it does not matter.
if call('HGET', name, owner) then
  local known = #token < #settled or #token == #settled and token < settled
  if not known then
    local fence = redis.pcall('GET', FENCE .. name .. REST)
    known = fence and (#fence > #token or #fence == #token and fence >= token)
  end
  if known then
    if call('PTTL', name) < tonumber(ttl) then
      call('PEXPIRE', name, ttl)
    end
    reply = 1
  end
end
