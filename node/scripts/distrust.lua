-- Make the marker one of another server, so that the next look at it begins a recovery. Another
-- server has answered at this address meanwhile, and has granted what this one does not know.
--
-- KEYS[1]   the marker
-- ARGV[1]   how long ago the other server answered last, in us
-- Reply     1
--
-- A recovery that ends late enough for what the other one had granted by then suffices. Otherwise
-- each client that returns after a while would begin another one.

local marker = redis.call('HMGET', KEYS[1], 'until', 'max_ttl', 'max_skew')
local time = redis.call('TIME')
local over, length = tonumber(marker[1]), (tonumber(marker[2]) or 0) + (tonumber(marker[3]) or 0)
if not over or over < time[1] * 1000000 + time[2] - ARGV[1] + length * 1000 then
  redis.call('HSET', KEYS[1], 'identity', '', 'open', '')
end
return 1
