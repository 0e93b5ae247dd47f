-- refusal is the reply to an acquisition that the node does not take whoever has the name, or
-- nil: because of what guard returned, or as its TTL is longer than any may be, or its token too
-- far from the node's clock.
--
-- A token must be younger than MaxTTL, and the last one no further ahead of the node's clock
-- than MaxClockSkew. A fence lives until the node's clock is MaxTTL + MaxClockSkew past it,
-- which is also how long a recovery lasts. So whatever a node has forgotten, it only
-- takes tokens that are larger than all those it ever took.
local function refusal(now, differs, recovering, ttl, token, last, max_ttl, max_skew)
  if differs or recovering then
    return differs or recovering
  elseif ttl > max_ttl then
    return {'SETTINGS', max_ttl, max_skew}
  elseif tonumber(last) > now + max_skew * 1000 or tonumber(token) <= now - max_ttl * 1000 then
    return {'CLOCK', now}
  end
end
