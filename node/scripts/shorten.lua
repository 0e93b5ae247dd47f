-- Set the TTL of the names that the owner holds, also to a shorter one.
--
-- KEYS      the names of the locks
-- ARGV[1]   owner
-- ARGV[2]   TTL in ms
-- Reply     1

for _, name in ipairs(KEYS) do
  if redis.call('HGET', name, ARGV[1]) then
    redis.call('PEXPIRE', name, ARGV[2])
  end
end
return 1
