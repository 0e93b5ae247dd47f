-- Make the marker one of another server, so that the next look at it begins a recovery. Another
-- server has answered at this address meanwhile, and has granted what this one does not know.
--
-- KEYS[1]   the marker
-- ARGV[1]   how long ago the other server answered last, in us
-- Reply     1
--
-- A recovery that began after the last answer of the other one suffices. Otherwise each client that
-- returns after a while would begin another one.

local since = tonumber(redis.call('HGET', KEYS[1], 'since'))
local time = redis.call('TIME')
if not since or since < time[1] * 1000000 + time[2] - ARGV[1] then
  redis.call('HSET', KEYS[1], 'identity', '', 'open', '')
end
return 1
