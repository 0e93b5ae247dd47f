-- End the recovery of the node, if it still has the marker that a Mark returned.
--
-- KEYS      none
-- ARGV[1]   MaxTTL of future clients in ms
-- ARGV[2]   MaxClockSkew of future clients in ms
-- ARGV[3]   identity of that marker
-- ARGV[4]   until of that marker
-- Reply     1       open
--           {left}  the node had other limits: it has these now, and recovers for left ms
--           or, if the marker has changed, the reply of mark
--
-- The marker shows any loss of memory since the Mark: a restart changes the identity, and a new
-- marker has another until.

local now, differs, recovering = guard(ARGV[1], ARGV[2])
if recovering and recovering.err then
  return recovering
end
local found = state(now)
if found[1] ~= ARGV[3] or found[2] ~= tonumber(ARGV[4]) then
  return found
end
if not differs then
  redis.call('HSET', 'quorumlock:node', 'until', 0)
  return 1
end
-- Grants and tokens accepted under the present limits must be in the past. The same holds for
-- earlier limits, whose share the recovery under way tells.
local left = math.max(math.max(ARGV[1], found[3]) + math.max(ARGV[2], found[4]), found[5])
redis.call('HSET', 'quorumlock:node', 'until', now + left * 1000, 'max_ttl', ARGV[1], 'max_skew', ARGV[2], 'restarted', 1, 'open', '')
return {left}
