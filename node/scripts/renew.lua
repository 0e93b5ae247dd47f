-- Extend every name to another TTL; put absent names back.
--
-- KEYS      the names of the locks; the keys of their tombstones; the index, if they are slots; the
--           marker; the fences. For one lock, no tombstone is needed
-- ARGV[1]   owner
-- ARGV[2]   token of the lease, in us
-- ARGV[3]   offsets of the names' fences: see locate
-- ARGV[4]   the last offset of the fence of a single name
-- ARGV[5]   TTL in ms, or none if it is MaxTTL
-- Reply     1                            extended
--           2                            extended, and at least one name was put back
--           {1 or 2, left, restarted}    the same, on a node that recovers for left ms
--           {name, owner, pttl, token}   held by another owner with this token: see token_of; nothing
--                                        was changed
--           {name, '', 0, 0}             the owner was forced off; nothing was changed
--           {'SETTINGS', max_ttl, max_skew}  the TTL is longer than these; nothing was changed
--           {'KEYS'}                     the owner does not hold the name: nothing was done, since the
--                                        tombstone is missing
--
-- A renewal never shortens a life, so a late or repeated one does no harm.

local call, name, owner, token, place, stop = redis.call, KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ttl = ARGV[5] or LONGEST
if not KEYS[6] then
  local open, time, seal, reply
  -- include inline/look
  if open then
    local settled = time[1] - SETTLED .. '000000'
    -- include inline/extend
    if reply then
      if KEYS[5] then
        local index, number, bound = KEYS[3], string.match(name, '%d+', 19), 'GT'
        local ends = time[1] * 1000 + math.floor(time[2] / 1000) + ttl
        -- include inline/book
      end
      return reply
    end
  end
end

if not KEYS[4] and not redis.pcall('HGET', name, owner) then -- prolong finds an error again, in its turn
  return {'KEYS'}
end

-- The rest is rarely reached, so its functions are made only here.
-- include lib/key
-- include lib/recovery
-- include lib/fence
-- include lib/put
-- include lib/book
-- include lib/tombstone
-- include lib/prolong
local names = first(2, 2 + indexed(name))
locate(names, place)
local now, recovering = guard(RECOVERY)
return prolong(now, recovering, names, owner, ttl, token)
