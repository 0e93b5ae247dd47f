-- Return what the node answers to an acquisition that it refuses whoever holds the name. now is the clock in us.
local now = time[1] * 1000000 + time[2]
if not plausible then
  -- include lib/recovery
  -- include lib/refusal
  local recovering
  now, recovering = guard(RECOVERY)
  local refused = refusal(now, recovering, tonumber(ttl), token, last, MAX_TTL, MAX_SKEW)
  if refused then
    return refused
  end
end
