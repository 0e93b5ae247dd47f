-- Give the names back, and wake their waiters. An undo must release all that it can: so it goes on after an error, and returns
-- the first one.
locate(names, ARGV[2] or '')
local removed, failure, queued, keep = 0, nil, false, tonumber(ARGV[5])
for _, name in ipairs(names) do
  local own = give(name, ARGV[1], ANNOUNCE, own)
  if type(own) == 'table' then
    failure = failure or own
  else
    removed = removed + own
  end
  queued = queued or whole and redis.pcall('EXISTS', key('queue', name), key('waiting', name)) ~= 0
end
if queued or keep then
  local queue = queues()
  if ARGV[3] then
    queue.rejoin(names, ARGV[3], ARGV[4], keep)
  end
  queue.wake_all(names, keep and ARGV[3])
end
return failure or removed
