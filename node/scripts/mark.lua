-- Read the marker of the node; see guard for when it is replaced.
--
-- KEYS      none
-- ARGV[1]   MaxTTL of the caller in ms
-- ARGV[2]   MaxClockSkew of the caller in ms
-- Reply     {identity, until, max_ttl, max_skew, left, restarted}, where until is 0 if
--           the node was opened, else in us, and left is the remaining recovery in ms

local now, differs, recovering = guard(ARGV[1], ARGV[2])
if recovering and recovering.err then
  return recovering
end
return state(now)
