-- Let the owner read a name that is free or read by others, and that nobody waits for, or say which writer denies it. A node
-- that may have forgotten the fence gets another one, as in acquireread. See hindrance and share. An error can only occur at the
-- first write: the fence was read, and the list may be of another type.
-- include inline/floor
local holder = not free and call('HKEYS', name)[1]
local longest = not free and call('ZRANGE', list, '-1', '-1', 'WITHSCORES')[2]
local seen = tonumber(call('GETRANGE', FENCES, place, stop)) or 0
if holder and holder ~= 'quorumlock:readers' then
  reply = {name, holder, call('PTTL', name), seen}
elseif not free and queue and call('EXISTS', queue) ~= 0 then
  reply = {'KEYS'}
else
  local life = longest and longest - now > tonumber(ttl) and longest - now or ttl
  if holder then
    call('PEXPIRE', name, life)
  end
  call('ZADD', list, 'GT', ends, owner)
  call('PEXPIRE', list, life)
  if seen <= floor then
    seen = math.max(token + math.min(0, MAX_SKEW - MAX_TTL) * 1000, time[1] * 1000000 + time[2] - MAX_TTL * 1000)
    call('SETRANGE', FENCES, place, string.sub('0000000000000000' .. string.format('%.0f', seen), -16))
  end
  reply = {seen}
  if not holder then
    local field, value = 'quorumlock:readers', '1'
    -- include inline/hold
  end
end
