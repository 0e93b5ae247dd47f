-- The rest of release: mostly it is not reached, and what it needs is not made.
local queue = queues()
if ARGV[3] then
  queue.rejoin(KEYS, ARGV[3], ARGV[4], keep)
end
queue.wake_all(KEYS, keep and ARGV[3])
return failure or removed
