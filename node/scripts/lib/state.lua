-- state returns the marker as a reply, with the rest of its recovery in ms: see mark.
local function state(now, recovery)
  local marker = redis.call('HMGET', MARKER, 'identity', 'since', 'restarted')
  local since = tonumber(marker[2])
  local left = since == 0 and 0 or math.max(0, math.ceil((since - now) / 1000) + recovery)
  return {marker[1], since, left, tonumber(marker[3]) or 0}
end
