-- Read the marker of the node; see guard for when it is replaced.
--
-- KEYS      the marker; the fences, which are not used
-- ARGV[1]   recovery of the caller in ms
-- Reply     {identity, since, left, restarted}: since when the node remembers everything, in us of
--           its clock, or 0 if it was opened, and the remaining recovery in ms

-- include lib/recovery
-- include lib/state
local now, recovering = guard(ARGV[1])
if recovering and recovering.err then
  return recovering
end
return state(now, ARGV[1])
