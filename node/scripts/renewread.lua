-- Extend an owner's reading of every name to another TTL; put absent names back. An owner that
-- holds a name as a writer becomes a reader of it.
--
-- KEYS      the names of the locks; their readers, tombstones, and the keys of their queues; the
--           marker; the fences
-- ARGV[1]   owner
-- ARGV[2]   TTL in ms
-- ARGV[3]   recovery of the client in ms
-- ARGV[4]   its limits: see limits
-- ARGV[5]   token of the lease, in us
-- ARGV[6]   offsets of the names' fences: see locate
-- ARGV[7]   waiter for which it became a writer, or none: it leaves the queues
-- Reply     as renew

local owner, ttl, token = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5])
local recovery, max_ttl, max_skew = tonumber(ARGV[3]), limits(ARGV[4])
local here, written, absent, gone, low, denial = {}, {}, {}, {}, {}, nil

local names = first(6, 2)
locate(names, ARGV[6])
local now, recovering = guard(ARGV[3])
if ttl > max_ttl then
  return {'SETTINGS', max_ttl, max_skew}
end
local fenced = token > now - recovery * 1000 and token <= now + max_skew * 1000
now = math.floor(now / 1000)

for _, name in ipairs(names) do
  local holder = redis.call('HKEYS', name)[1]
  local own = reading(name, owner, now)
  if holder == owner then
    written[#written + 1] = name
  elseif holder == readers and own then
    here[#here + 1] = name
  elseif buried(name, owner, now * 1000) then
    return {name, '', 0, 0} -- even if another owner holds the name now
  elseif holder and holder ~= readers then
    denial = denial or {name, holder, redis.call('PTTL', name), token_of(name, holder)}
  elseif holder then
    gone[#gone + 1] = name
  else
    absent[#absent + 1] = name
  end
  if fenced and fence(name) < token then
    low[#low + 1] = name
  end
end
if denial then
  return denial
end

for _, name in ipairs(here) do
  share(name, owner, ttl, now)
end
for _, name in ipairs(written) do
  local left = math.max(redis.call('PTTL', name), ttl)
  redis.call('DEL', name) -- a node that is out of memory does the rest only behind this write
  local failure = share(name, owner, left, now, true)
  if failure then
    return failure
  end
end
for _, name in ipairs(gone) do
  share(name, owner, ttl, now)
end
for _, name in ipairs(absent) do
  local failure = share(name, owner, ttl, now, true)
  if failure then
    return failure
  end
end
raise(low, ARGV[5])
local queued = {}
for _, name in ipairs(ARGV[7] and names or {}) do
  local ticket = redis.pcall('ZSCORE', key('queue', name), ARGV[7])
  if type(ticket) == 'string' then
    queued[#queued + 1] = name
  end
end
if #written + #queued > 0 then
  local queue = queues()
  queue.rejoin(queued, ARGV[7])
  queue.wake_all(written)
  queue.wake_all(queued)
end
local done = #absent + #gone > 0 and 2 or 1
return recovering and {done, recovering[2] or recovery, recovering[3] or 0} or done
