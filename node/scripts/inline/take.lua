-- Give the owner a name that is known to be free: the fence, the lock and its TTL. A fence at least
-- as large as the token is put back. An error can only occur at the first write, for example at a
-- fence of another type, so nothing has changed then. The tokens are compared as text: to parse a
-- number of 16 digits costs more than the rest of the comparison.
local before = call('SET', FENCE .. name .. REST, last, 'PXAT', fenced, 'GET')
reply = 1
if before and (#before > #token or #before == #token and before >= token) and tonumber(before) then
  local ms = tonumber(string.sub(before, 1, -4)) or 0
  call('SET', FENCE .. name .. REST, before, 'PXAT', string.format('%.0f', ms + MAX_TTL + MAX_SKEW))
  reply = {tonumber(before)}
end
call('HSET', name, owner, '1')
local set = redis.pcall('PEXPIRE', name, ttl)
if set ~= 1 then -- the same as in put
  reply = set
  if redis.pcall('HDEL', name, owner) ~= 1 then
    redis.pcall('DEL', name)
  end
end
