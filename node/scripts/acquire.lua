-- Take every name for one owner, or none, and its fencing token; or wait for them.
--
-- KEYS      the names of the locks
-- ARGV[1]   owner
-- ARGV[2]   TTL in ms
-- ARGV[3]   MaxTTL of the client in ms
-- ARGV[4]   MaxClockSkew of the client in ms
-- ARGV[5]   proposed token, in us of the client's clock
-- ARGV[6]   last of the tokens from there on that are reserved, or the same: the fence
-- ARGV[7]   waiter, or none or '': who gets an entry in the queues if this is denied
-- ARGV[8]   its ticket
-- ARGV[9]   how long its entry lives, in ms
-- ARGV[10]  anything if a free name is left to those who came before; none if it is taken
--           whoever waits
-- Reply     1                           granted, and the token was taken
--           {fence}                     granted; the token was not taken: fence is as large
--           {name, owner, pttl, fence}  held by another: the one that lives longest
--           {name, '', left, fence}     free, and left to another waiter for so many ms
--           {'CLOCK', now}              the token is too far from the node's clock, in us
--           and those of guard. For a waiter, the third and fourth end with its rank: how
--           many stand before it in the queue of that name
--
-- A lock is a hash with one field, its owner: the layout of Redisson's RLock. All is
-- read before the first write, so a key of another type fails the whole script early,
-- and each HSET is followed directly by its PEXPIRE: no lock is ever without a TTL.
--
-- A token must be younger than MaxTTL, and the last one no further ahead of the node's clock
-- than MaxClockSkew. A fence lives until the node's clock is MaxTTL + MaxClockSkew past it,
-- which is also how long a recovery lasts. So whatever a node has forgotten, it only
-- takes tokens that are larger than all those it ever took.

local owner, ttl, token = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5])
local max_ttl, max_skew = tonumber(ARGV[3]), tonumber(ARGV[4])
local waiter, fair = ARGV[7] ~= '' and ARGV[7], ARGV[10]

local now, differs, recovering = guard(ARGV[3], ARGV[4])
if differs or recovering then
  return differs or recovering
end
if ttl > max_ttl then
  return {'SETTINGS', max_ttl, max_skew}
end
if tonumber(ARGV[6]) > now + max_skew * 1000 or token <= now - max_ttl * 1000 then
  return {'CLOCK', now}
end

local denial
local fence, low = 0, {}
local free, taken, queued, queue = {}, {}, false, nil
for _, name in ipairs(KEYS) do
  local holder = redis.call('HKEYS', name)[1]
  local seen = tonumber(redis.call('GET', key('fence', name)) or 0)
  if holder and holder ~= owner then
    local left = redis.call('PTTL', name)
    if not denial or left == -1 or (denial[3] ~= -1 and left > denial[3]) then
      denial = {name, holder, left, seen}
    end
  end
  if holder and holder ~= owner then
    taken[#taken + 1] = name
  elseif fair and not holder then
    free[#free + 1] = {name, '', 0, seen}
  end
  if seen < token then
    low[#low + 1] = name
  elseif seen > fence then
    fence = seen
  end
  queued = queued or (waiter or fair) and redis.call('EXISTS', key('queue', name)) == 1
end

if queued or waiter and denial then
  queue = queues()
  for _, name in ipairs(KEYS) do
    queue.sound(name, waiter)
  end
  now = math.floor(now / 1000)
  if waiter and (denial or fair) then
    queue.enter_all(KEYS, waiter, ARGV[8], tonumber(ARGV[9]), now)
    queue.came(taken, waiter)
  end
  if not denial and fair then
    local left = {}
    for _, other in ipairs(free) do
      local ms, first = queue.precedence(other[1], waiter, now)
      other[3] = ms or 0
      if first then
        left[#left + 1] = other[1]
      end
      if other[3] > (denial and denial[3] or 0) then
        denial = other
      end
    end
    queue.came(left, waiter)
  end
  if denial and waiter then
    denial[5] = redis.call('ZRANK', key('queue', denial[1]), waiter) or 0
  end
end
if denial then
  return denial
end

for _, name in ipairs(KEYS) do
  redis.call('HSET', name, owner, 1)
  redis.call('PEXPIRE', name, ttl)
end
if queue and waiter and fair then
  queue.expect_all(KEYS, waiter, now) -- if it gives them back, others wait no longer for it
end
raise(low, ARGV[6], max_ttl + max_skew)
return fence > 0 and {fence} or 1
