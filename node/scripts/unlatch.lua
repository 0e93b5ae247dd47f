-- Delete a latch: forget its count and its ids, and begin another generation.
--
-- KEYS      the name of the latch, which is not used; its three keys; the marker; the
--           fences, which are not used
-- ARGV[1]   TTL in ms of the record of the deletion, or the rest of the latch's if that is longer
-- ARGV[2]   recovery of the client in ms
-- ARGV[3]   its limits: see limits
-- ARGV[4]   token, in us of the client's clock: the generation that begins
-- Reply     as latch: {1, ...} if that generation has begun, {0, ...} if the node has
--           seen a token as large

-- include lib/key
-- include lib/recovery
-- include lib/latch
local max_ttl, max_skew = limits(ARGV[3])
local token = tonumber(ARGV[4])

local now, recovering = guard(ARGV[2])
if recovering and recovering.err then
  return recovering
end
local latch = latches(KEYS[1])
if not latch.plausible(token, now, max_ttl, max_skew) then
  return {'CLOCK', now}
end
local repeated = latch.generation == token
if not repeated and (token <= latch.generation or token <= latch.since or token <= latch.last) then
  return latch.told(false, recovering)
end
if not repeated then
  latch.begin(ARGV[4])
  latch.live(tonumber(ARGV[1]))
  latch.wake()
end
return latch.told(true, recovering)
