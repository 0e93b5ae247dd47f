-- Let an owner read all names, or none; or queue its waiter.
--
-- KEYS      the names of the locks; their queues and readers, and the other keys of the queues; the marker; the fences. For a
--           name without a waiter, queue and readers are enough
-- ARGV      as for acquire, with the time of the client's clock in us as the token, or a larger token that was taken. ARGV[6]
--           is the token to which a smaller fence is raised, or 0
-- Reply     {fence}                     granted; fence is the largest of the names
--           {name, owner, pttl, fence}  held by a writer, or by readers while an earlier writer
--                                       waits
--           and the replies of acquire
--
-- Readers share a lock, so only a writer keeps a reader out: the holder, or an earlier waiter.
--
-- A reader has no token of its own: it acts under the largest token of the name. But a node forgets
-- all fences when it loses its memory. A fence up to floor, the largest token from before the loss,
-- may replace one that was forgotten: another name has the same place, or the node has returned
-- with an earlier memory. Then this script sets a fence. It is larger than all that the node may
-- have forgotten, and smaller than any token that the node still accepts from a writer. A client
-- sets the same fence on all nodes, unless its clock is more than MaxClockSkew behind the node's.

local call, name, queue, list, owner, token, place, stop = redis.call, KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ttl, raised, waiter = ARGV[5] or LONGEST, tonumber(ARGV[6] or 0), ARGV[7]
local last = raised > tonumber(token) and ARGV[6] or token
local open, time, seal, oldest, newest, floor, reply
-- include inline/look
-- include inline/plausible
-- include inline/admit
now = math.floor(now / 1000)
if not KEYS[6] then
  local free, ends = call('EXISTS', name, queue) == 0, now + ttl
  -- include inline/read
  return reply
end

-- include lib/key
-- include lib/fence
-- include lib/put
-- include lib/queue
-- include lib/readers
-- include lib/hindrance
-- include inline/floor
local names = first(5, 2)
locate(names, place)
ttl, token = tonumber(ttl), tonumber(token)
local forgotten = math.max(math.min(token, token + (MAX_SKEW - MAX_TTL) * 1000), time[1] * 1000000 + time[2] - MAX_TTL * 1000)

local denial, fences, free, queue = hindrance(names, owner, FAIR, waiter, ARGV[8], tonumber(ARGV[9]), now)
if denial then
  return denial
end
local shared, old, low = 0, {}, {}
for _, name in ipairs(names) do
  local seen = fences[name]
  if seen <= floor then
    old[#old + 1] = name
    seen = forgotten
  end
  if seen < raised then
    low[#low + 1] = name
    seen = raised
  end
  shared = math.max(shared, seen)
end

for _, name in ipairs(names) do
  local failure = share(name, owner, ttl, now, free[name])
  if failure then
    return failure
  end
end
raise(old, string.format('%.0f', forgotten))
raise(low, ARGV[6] or '0')
if queue then
  -- Readers that hold the lock leave the queue, so that scripts need not look past them. A reader
  -- that gives the names back gets its place again, by its ticket.
  for _, name in ipairs(names) do
    if waiter then
      queue.dropped(name, waiter)
    end
  end
  queue.wake_all(names)
end
return {shared}
