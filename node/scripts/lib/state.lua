-- state returns the marker as a reply, with the rest of its recovery in ms: see mark.
local function state(now)
  local marker = redis.call('HMGET', 'quorumlock:node', 'identity', 'until', 'max_ttl', 'max_skew', 'restarted')
  local left = math.max(0, math.ceil((marker[2] - now) / 1000))
  return {marker[1], tonumber(marker[2]), tonumber(marker[3]), tonumber(marker[4]), left, tonumber(marker[5]) or 0}
end
