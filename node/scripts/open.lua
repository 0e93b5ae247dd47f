-- End the recovery of the node, if its marker is the one that a Mark found.
--
-- KEYS      none
-- ARGV[1]   MaxTTL of the clients to come in ms
-- ARGV[2]   MaxClockSkew of the clients to come in ms
-- ARGV[3]   identity that was found
-- ARGV[4]   until that was found
-- Reply     1       open
--           {left}  the node had other limits: it has these now, and recovers for left ms
--           or, if the marker is another by now, what mark replies
--
-- Whatever lost the node its memory since the Mark, the marker shows it: a restart
-- changes the identity, and a marker that was written anew has another until.

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
-- What was granted, and tokens that were taken, under the limits so far have to be in the
-- past; and what was so before those, which the recovery under way tells.
local left = math.max(math.max(ARGV[1], found[3]) + math.max(ARGV[2], found[4]), found[5])
redis.call('HSET', 'quorumlock:node', 'until', now + left * 1000, 'max_ttl', ARGV[1], 'max_skew', ARGV[2], 'restarted', 1, 'open', '')
return {left}
