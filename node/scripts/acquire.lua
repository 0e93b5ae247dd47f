-- Take every name for one owner, or none, and its fencing token; or wait for them.
--
-- KEYS      the names of the locks
-- ARGV[1]   owner
-- ARGV[2]   TTL in ms
-- ARGV[3]   MaxTTL of the client in ms
-- ARGV[4]   MaxClockSkew of the client in ms
-- ARGV[5]   1 if a free name is left to those who came before; else it is taken whoever waits
-- ARGV[6]   proposed token, in us of the client's clock
-- ARGV[7]   last of the tokens from there on that are reserved, or the same: the fence
-- ARGV[8]   waiter, or none: who gets an entry in the queues if this is denied
-- ARGV[9]   its ticket
-- ARGV[10]  how long its entry lives, in ms
-- Reply     1                           granted, and the token was taken
--           {fence}                     granted; the token was not taken: fence is as large
--           {name, owner, pttl, fence}  held by another: the one that lives longest
--           {name, '', left, fence}     free, and left to another waiter for so many ms
--           {'CLOCK', now}              the token is too far from the node's clock, in us
--           and those of guard. For a waiter, the third and fourth end with its rank: how
--           many stand before it in the queue of that name
--
-- A lock is a hash with one field, its owner: the layout of Redisson's RLock.

local owner, token, last = ARGV[1], ARGV[6], ARGV[7]
local ttl, max_ttl, max_skew = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local life = max_ttl + max_skew

local now, differs, recovering = guard(ARGV[3], ARGV[4])
local refused = refusal(now, differs, recovering, ttl, token, last, max_ttl, max_skew)
if refused then
  return refused
end
if #KEYS == 1 and redis.call('EXISTS', KEYS[1], key('queue', KEYS[1])) == 0 then
  return take(KEYS[1], key('fence', KEYS[1]), owner, ARGV[2], token, last, life)
end
