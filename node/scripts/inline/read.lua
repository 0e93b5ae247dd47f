-- Let the owner read a name that is free or read by others, as acquireread does. A node that may have forgotten the fence needs
-- another one, which is left to acquireread.
if not floor then
  local since = tonumber(call('HGET', MARKER, 'since')) or 0
  floor = math.max(0, (since == 0 and 0 or since + RECOVERY * 1000) - MAX_TTL * 1000)
end
local holder = not free and call('HKEYS', name)[1]
local longest = not free and call('ZRANGE', names[k + 1], -1, -1, 'WITHSCORES')[2]
local seen = tonumber(call('GETRANGE', FENCES, place, stop)) or 0
if holder and holder ~= 'quorumlock:readers' then
  reply = {name, holder, call('PTTL', name), seen}
elseif seen <= floor then
  reply = {'KEYS'}
else
  local life = longest and longest - now > tonumber(ttl) and longest - now or ttl
  if holder then
    call('PEXPIRE', name, life)
  end
  call('ZADD', names[k + 1], 'GT', ends, owner)
  call('PEXPIRE', names[k + 1], life)
  reply = {seen}
  if not holder then
    local field, value = 'quorumlock:readers', '1'
    -- include inline/hold
  end
end
