-- Set the size of a pool, unless the node knows a later setting. Wake the next waiters if it grew.
--
-- KEYS     the pool; queue and waiting of its queue; its index
-- ARGV[1]  size
-- ARGV[2]  version; 0 only asks
-- Reply    1                the size is set
--          {version, size}  another setting of at least that version is; 0 and 0 if there is none

-- include lib/key
-- include lib/fence
-- include lib/queue
-- include lib/book
-- include lib/vacancies
-- include lib/pool
local set = redis.call('HMGET', KEYS[1], 'size', 'version')
local known = tonumber(set[2]) or 0
if known > tonumber(ARGV[2]) or known == tonumber(ARGV[2]) and set[1] ~= ARGV[1] then
  return {known, tonumber(set[1]) or 0}
end
redis.call('HSET', KEYS[1], 'size', ARGV[1], 'version', ARGV[2])
pools().wake_free(KEYS[1], tonumber(ARGV[1]))
return 1
