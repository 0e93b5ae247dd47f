-- Have an owner read every name, or none; or wait for them.
--
-- KEYS      the names of the locks
-- ARGV[1]   owner
-- ARGV[2]   TTL in ms
-- ARGV[3]   MaxTTL of the client in ms
-- ARGV[4]   MaxClockSkew of the client in ms
-- ARGV[5]   1 if a name is left to a writer that came before
-- ARGV[6]   time of the client's clock in us, or a token that was taken and is larger
-- ARGV[7]   token that is to be the fence where that is smaller, or 0
-- ARGV[8..10]  waiter, its ticket, and how long its entry lives, as for acquire
-- Reply     {fence}                     granted; fence is the largest of the names
--           {name, owner, pttl, fence}  held by a writer, or by readers, and a writer who waits
--                                       has its turn before this one
--           and those of acquire
--
-- Readers share a lock, so only a writer stands in the way of one: who holds the lock, or who
-- came before and waits for it.
--
-- A reader has no token of its own: it acts under the largest that there is. But a node
-- forgets a fence of which no writer needs to know any more, and all of them with its memory.
-- What it has forgotten is smaller than what it takes from a writer at the earliest, and so is
-- what becomes the fence here in the place of that. All nodes get the same from a client,
-- except where that client's clock is further behind the node's than MaxClockSkew.

local owner, ttl, token, raised = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[6]), tonumber(ARGV[7])
local max_ttl, max_skew = tonumber(ARGV[3]), tonumber(ARGV[4])
local fair, waiter = ARGV[5] == '1', ARGV[8]

local now, differs, recovering = guard(ARGV[3], ARGV[4])
local refused = refusal(now, differs, recovering, ttl, token, math.max(token, raised), max_ttl, max_skew)
if refused then
  return refused
end
local forgotten = math.max(math.min(token, token + (max_skew - max_ttl) * 1000), now - max_ttl * 1000)
now = math.floor(now / 1000)

local denial
local fence, old, low = 0, {}, {}
local free, asked, taken, queued, queue = {}, {}, {}, false, nil
for _, name in ipairs(KEYS) do
  local holder = redis.call('HKEYS', name)[1]
  local seen = tonumber(redis.call('GET', key('fence', name)) or 0) or 0
  local own = reading(name, owner, now) -- an error if the key has another type
  if holder and holder ~= readers then
    local left = redis.call('PTTL', name)
    if not denial or left == -1 or (denial[3] ~= -1 and left > denial[3]) then
      denial = {name, holder, left, seen}
    end
    taken[#taken + 1] = name
  elseif not holder or not own then
    asked[#asked + 1] = name
    free[name] = not holder
  end
  if seen == 0 then
    old[#old + 1] = name
    seen = forgotten
  end
  if seen < raised then
    low[#low + 1] = name
    seen = raised
  end
  fence = math.max(fence, seen)
  queued = queued or (waiter or fair) and redis.call('EXISTS', key('queue', name)) == 1
end

if queued or waiter and denial then
  queue = queues()
  for _, name in ipairs(KEYS) do
    queue.sound(name, waiter)
  end
  if waiter and (denial or fair) then
    queue.enter_all(KEYS, waiter, ARGV[9], tonumber(ARGV[10]), now)
    queue.came(taken, waiter)
  end
  if not denial and fair then
    local left = {}
    for _, name in ipairs(asked) do
      local ms, first = queue.intent(name, waiter, now, free[name])
      if first then
        left[#left + 1] = name
      end
      if (ms or 0) > (denial and denial[3] or 0) then
        denial = {name, free[name] and '' or readers, ms, (tonumber(redis.call('GET', key('fence', name)) or 0) or 0)}
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
  local failure = share(name, owner, ttl, now, free[name])
  if failure then
    return failure
  end
end
-- The fence that all readers find in the place of what was forgotten lives for the whole time
-- from now on, not from its own: so those that come after each other have the same.
for _, name in ipairs(old) do
  redis.call('SET', key('fence', name), string.format('%.0f', forgotten), 'PX', max_ttl + max_skew)
end
raise(low, ARGV[7], max_ttl + max_skew)
if queue then
  -- It may give them back, and then has its place again by its ticket. Those who hold the lock
  -- together must not stand in the way of those who look for who waits for it.
  for _, name in ipairs(KEYS) do
    if waiter then
      queue.dropped(name, waiter)
    end
  end
  queue.wake_all(KEYS)
end
return {fence}
