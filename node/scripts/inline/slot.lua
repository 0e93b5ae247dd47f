-- Give the owner a free slot, as permits_acquire does, or say what denies it.
local pool, size, version, number = names[k + 2], argv[at + 5], argv[at + 6], string.match(name, '%d+', 19)
local set = quiet and {} or call('HMGET', pool, 'size', 'version')
if version - (set[2] or 0) <= 0 and number - (set[1] or size) < 0 and (free or call('EXISTS', name) == 0) then
  -- include inline/take
  if set == 1 then -- see book
    if type(redis.pcall('ZADD', names[k + 1], 'GT', ends, number)) ~= 'number' then
      redis.pcall('DEL', names[k + 1])
    end
    redis.pcall('PEXPIRE', names[k + 1], RECOVERS)
  end
else
  reply = rarely().occupied(pool, name, owner, size, version, place, now)
end
