-- Extend every name to another TTL; put absent names back.
--
-- KEYS      the names of the locks
-- ARGV[1]   owner
-- ARGV[2]   TTL in ms
-- ARGV[3]   token of the lease, in us
-- ARGV[4]   offsets of the names' fences: see locate
-- Reply     1                            extended
--           2                            extended, and at least one name was put back
--           {1 or 2, left, restarted}    the same, on a node that recovers for left ms
--           {name, owner, pttl, token}   held by another owner with this token: see token_of; nothing
--                                        was changed
--           {name, '', 0, 0}             the owner was forced off; nothing was changed
--           {'SETTINGS', max_ttl, max_skew}  the TTL is longer than these; nothing was changed
--
-- A renewal never shortens a life, so a late or repeated one does no harm.

local call, name, owner, ttl, token, place = redis.call, KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if not KEYS[2] then
  local open, time, reply
  -- include inline/look
  if open and ttl - MAX_TTL <= 0 then
    local settled = time[1] - SETTLED .. '000000'
    -- include inline/extend
    if reply then
      return reply
    end
  end
end

-- The rest is rarely reached, so its functions are made only here.
-- include lib/key
-- include lib/recovery
-- include lib/fence
-- include lib/put
-- include lib/book
-- include lib/prolong
locate(KEYS, place)
local now, recovering = guard(RECOVERY)
return prolong(now, recovering, KEYS, owner, ttl, token)
