-- refusal returns the reply to an acquisition that the node refuses whoever holds the name, or nil.
-- The reason is what guard returned, a TTL beyond the limit, or a token too far from the node's
-- clock.
--
-- A token must be younger than MaxTTL, and the end of its block at most MaxClockSkew ahead of the
-- node's clock. A recovery takes MaxTTL plus the MaxClockSkew of any client, at least. So a node that
-- has lost its memory still only accepts tokens larger than all it ever accepted. Lua compares numbers exactly up to 2 ^ 53, the
-- time in the year 2255. So a token has at most the 16 digits of a place for a fence.
local function refusal(now, recovering, ttl, token, last, max_ttl, max_skew)
  if recovering then
    return recovering
  elseif ttl > max_ttl then
    return {'SETTINGS', max_ttl, max_skew}
  elseif tonumber(last) > math.min(now + max_skew * 1000, 2 ^ 53) or tonumber(token) <= now - max_ttl * 1000 then
    return {'CLOCK', now}
  end
end
