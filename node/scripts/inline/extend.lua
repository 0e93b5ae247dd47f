-- Make a name that an owner has live for another TTL. Its fence is as it has to be if it has a
-- token as large, or if nobody could take a smaller one any more. Where it cannot be read, that is
-- for prolong to say: it may be so old that nobody asks.
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
