-- Make the lock with its field and its life, as put does.
call('HSET', name, field, value)
local set = redis.pcall('PEXPIRE', name, life)
if set ~= 1 then
  reply = set
  if redis.pcall('HDEL', name, field) ~= 1 then
    redis.pcall('DEL', name)
  end
end
