-- Extend a name that the owner holds to another TTL. The fence needs no change if it is at least
-- the token, or if the node would refuse any smaller token. Usually it is the token itself. prolong
-- handles fences that cannot be read: the token may be so old that they do not matter.
if call('HGET', name, owner) then
  local known = #token < #settled or #token == #settled and token < settled
  if not known then
    local before = redis.pcall('GETRANGE', FENCES, place, stop)
    known = before == token or type(before) == 'string' and before > token and (tonumber(before) or 0) > tonumber(token)
  end
  if known then
    if call('PTTL', name) < tonumber(ttl) then
      call('PEXPIRE', name, ttl)
    end
    reply = 1
  end
end
