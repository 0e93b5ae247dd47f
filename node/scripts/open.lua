-- End the recovery of the node, if it still has the marker that a Mark returned.
--
-- KEYS      the marker; the fences, which are not used
-- ARGV[1]   recovery of the caller in ms
-- ARGV[2]   identity of that marker
-- ARGV[3]   since of that marker
-- Reply     1       open
--           or, if the marker has changed, the reply of mark
--
-- The marker shows any loss of memory since the Mark: a restart changes the identity, and a new
-- marker has another since.

-- include lib/recovery
-- include lib/state
local now, recovering = guard(ARGV[1])
if recovering and recovering.err then
  return recovering
end
local found = state(now, ARGV[1])
if found[1] ~= ARGV[2] or found[2] ~= tonumber(ARGV[3]) then
  return found
end
redis.call('HSET', MARKER, 'since', 0)
return 1
