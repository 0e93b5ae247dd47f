-- End an owner's reading of the names, and wake the next waiters of the free names.
--
-- KEYS      the names of the locks; their readers, and the keys of their queues; the fences
-- ARGV[1]   owner
-- ARGV[2]   1 if Redisson's clients are told
-- ARGV[3]   offsets of the names' fences: see locate
-- ARGV[4..6]  waiter, its ticket, and how long its entries live from now on, as for release
-- Reply     as for release
--
-- Names that the owner still holds as a writer are removed too: the node may have missed its
-- downgrade. As release does, it removes all that it can.

local names = first(5, 1)
locate(names, ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- give releases one name, and reports whether it was held, and whether it is free now. A key of
-- another type in the place of the readers must not keep a writer from being removed.
local function give(name)
  local ok, reads = pcall(reading, name, ARGV[1], now)
  if ok and reads then
    local shared = redis.pcall('HGET', name, readers)
    if shared and not shared.err then
      return true, settle(name, now, ARGV[1])
    end
    -- While a cluster's slot moves, the lock may be on another server. Then nothing is removed.
    if not shared or string.find(shared.err, 'WRONGTYPE', 1, true) then
      redis.call('ZREM', key('readers', name), ARGV[1])
    end
    if shared then
      error(shared.err, 0)
    end
    return true, false
  end
  local own = redis.call('HDEL', name, ARGV[1]) == 1
  if not ok and not own then
    error(reads, 0)
  end
  return own, own
end

local removed, failure, queued = 0, nil, false
for _, name in ipairs(names) do
  local ok, own, free = pcall(give, name)
  if ok and own then
    removed = removed + 1
    if free and ARGV[2] == '1' then
      announce(name)
    end
  elseif not ok then
    local text = type(own) == 'table' and own.err or own -- a string before Redis 7
    if not string.find(text, 'WRONGTYPE', 1, true) then
      failure = {err = text}
    end
  end
  queued = queued or redis.pcall('EXISTS', key('queue', name), key('waiting', name)) ~= 0
end
local keep = tonumber(ARGV[6])
if queued or keep then
  local queue = queues()
  if ARGV[4] then
    queue.rejoin(names, ARGV[4], ARGV[5], keep)
  end
  queue.wake_all(names, keep and ARGV[4])
end
return failure or removed
