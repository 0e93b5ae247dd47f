-- Give the owner a name that is known to be free: the fence, the lock and its TTL. An error can only
-- occur at the first write, so nothing has changed then. The tokens are compared as text first: to
-- parse a number of 16 digits costs more than the rest of the comparison.
local before = call('GETRANGE', FENCES, place, stop)
if before < token or (tonumber(before) or 0) < tonumber(token) then
  call('SETRANGE', FENCES, place, last)
  reply = 1
else
  reply = {tonumber(before)}
end
local field, value, life = owner, last, ttl
-- include inline/hold
