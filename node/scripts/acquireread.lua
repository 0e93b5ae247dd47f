-- Let an owner read all names, or none; or queue its waiter.
--
-- KEYS      the names of the locks; their readers, and the keys of their queues; the marker; the
--           fences
-- ARGV[1]   owner
-- ARGV[2]   TTL in ms
-- ARGV[3]   recovery of the client in ms
-- ARGV[4]   its limits: see limits
-- ARGV[5]   1 if a name is left to an earlier writer
-- ARGV[6]   time of the client's clock in us, or a token that was taken and is larger
-- ARGV[7]   token to which a smaller fence is raised, or 0
-- ARGV[8]   offsets of the names' fences: see locate
-- ARGV[9..11]  waiter, its ticket, and how long its entry lives, as for acquire
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

local owner, ttl, token, raised = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[6]), tonumber(ARGV[7])
local max_ttl, max_skew = limits(ARGV[4])
local waiter = ARGV[9]

local names = first(5, 2)
locate(names, ARGV[8])
local now, recovering, recovered = guard(ARGV[3])
local refused = refusal(now, recovering, ttl, token, math.max(token, raised), max_ttl, max_skew)
if refused then
  return refused
end
local forgotten = math.max(math.min(token, token + (max_skew - max_ttl) * 1000), now - max_ttl * 1000)
local floor = math.max(0, recovered - max_ttl * 1000)
now = math.floor(now / 1000)

local denial, fences, free, queue = hindrance(names, owner, ARGV[5] == '1', waiter, ARGV[10], tonumber(ARGV[11]), now)
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
raise(low, ARGV[7])
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
