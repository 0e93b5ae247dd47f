-- Extend an owner's reading of every name to another TTL; put absent names back. An owner that
-- holds a name as a writer becomes a reader of it.
--
-- KEYS      the names of the locks; their readers, tombstones, and the keys of their queues; the
--           marker; the fences
-- ARGV      as for renew, and then the waiter for which it became a writer, or none: it leaves the queues
-- Reply     as renew

-- include lib/key
-- include lib/recovery
-- include lib/fence
-- include lib/put
-- include lib/queue
-- include lib/readers
-- include lib/tombstone
local owner, token, ttl, waiter = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5] or LONGEST), ARGV[6]
local here, written, absent, gone, low, denial = {}, {}, {}, {}, {}, nil

local names = first(6, 2)
locate(names, ARGV[3])
local now, recovering = guard(RECOVERY)
if ttl > MAX_TTL then
  return {'SETTINGS', MAX_TTL, MAX_SKEW}
end
local fenced = token > now - RECOVERY * 1000 and token <= now + MAX_SKEW * 1000
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
raise(low, ARGV[2])
local queued = {}
for _, name in ipairs(waiter and names or {}) do
  local ticket = redis.pcall('ZSCORE', key('queue', name), waiter)
  if type(ticket) == 'string' then
    queued[#queued + 1] = name
  end
end
if #written + #queued > 0 then
  local queue = queues()
  queue.rejoin(queued, waiter)
  queue.wake_all(written)
  queue.wake_all(queued)
end
local done = #absent + #gone > 0 and 2 or 1
return recovering and {done, recovering[2] or RECOVERY, recovering[3] or 0} or done
