-- Make every name live for another TTL; put back those that are absent.
--
-- KEYS      the names of the locks
-- ARGV[1]   owner
-- ARGV[2]   TTL in ms
-- ARGV[3]   MaxTTL of the client in ms
-- ARGV[4]   MaxClockSkew of the client in ms
-- ARGV[5]   token of the lease, in us
-- Reply     1                            extended
--           2                            extended, and at least one name was put back
--           {1 or 2, left, restarted}    the same, on a node that recovers for left ms
--           {name, owner, pttl, fence}   held by another; nothing was changed
--           {name, '', 0, 0}             the owner was forced off; nothing was changed
--           {'SETTINGS', max_ttl, max_skew}  see guard; nothing was changed
--
-- A renewal never shortens a life, so a late or repeated one does no harm.

local now, differs, recovering = guard(ARGV[3], ARGV[4])
if differs then
  return differs
end
return prolong(now, recovering, KEYS, ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5])
