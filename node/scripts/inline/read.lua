-- Let the owner read a name that is free or read by others, and that nobody waits for, or say which writer denies it. A node
-- that may have forgotten the fence needs another one, which is left to acquireread. See hindrance and share.
-- include inline/floor
local holder = not free and call('HKEYS', name)[1]
local longest = not free and call('ZRANGE', list, '-1', '-1', 'WITHSCORES')[2]
local seen = tonumber(call('GETRANGE', FENCES, place, stop)) or 0
if holder and holder ~= 'quorumlock:readers' then
  reply = {name, holder, call('PTTL', name), seen}
elseif seen <= floor or not free and queue and call('EXISTS', queue) ~= 0 then
  reply = {'KEYS'}
else
  local life = longest and longest - now > tonumber(ttl) and longest - now or ttl
  if holder then
    call('PEXPIRE', name, life)
  end
  call('ZADD', list, 'GT', ends, owner)
  call('PEXPIRE', list, life)
  reply = {seen}
  if not holder then
    local field, value = 'quorumlock:readers', '1'
    -- include inline/hold
  end
end
