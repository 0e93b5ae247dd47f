-- take gives a name to an owner, where it is known that nobody has it: the fence, the lock and
-- its TTL. It returns what acquire replies to a grant. All arguments but life are strings, as
-- numbers are slow to pass.
--
-- A fence that is as large as the token is put back. What fails does so at the first write,
-- a fence of another type included: then nothing was changed.
local function take(name, fence, owner, ttl, token, last, life)
  local before = redis.call('SET', fence, last, 'PXAT', expiry(last, life), 'GET')
  local reply = 1
  if before and later(before, token) and tonumber(before) then
    redis.call('SET', fence, before, 'PXAT', expiry(before, life))
    reply = {tonumber(before)}
  end
  return put(name, owner, ttl) or reply
end
