-- The largest token from before the last loss of memory: a fence up to it may replace one that was forgotten.
if not floor then
  local since = tonumber(call('HGET', MARKER, 'since')) or 0
  floor = math.max(0, (since == 0 and 0 or since + RECOVERY * 1000) - MAX_TTL * 1000)
end
