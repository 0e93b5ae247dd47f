-- Give a name to an owner, where it is known that nobody has it: the fence, the lock and its TTL.
-- A fence that is as large as the token is put back. What fails does so at the first write, a fence
-- of another type included: then nothing was changed. The tokens are compared as they are written,
-- as to read a number of 16 digits costs more than all else about it.
local before = call('SET', FENCE .. name .. REST, last, 'PXAT', fenced, 'GET')
reply = 1
if before and (#before > #token or #before == #token and before >= token) and tonumber(before) then
  local ms = tonumber(string.sub(before, 1, -4)) or 0
  call('SET', FENCE .. name .. REST, before, 'PXAT', string.format('%.0f', ms + MAX_TTL + MAX_SKEW))
  reply = {tonumber(before)}
end
call('HSET', name, owner, '1')
local set = redis.pcall('PEXPIRE', name, ttl)
if set ~= 1 then -- as put does
  reply = set
  if redis.pcall('HDEL', name, owner) ~= 1 then
    redis.pcall('DEL', name)
  end
end
