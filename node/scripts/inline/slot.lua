-- Give the owner a slot that is free and in the pool, while nobody waits for the pool. Otherwise reply stays nil.
local number, set = string.match(name, '%d+', 19), not quiet and call('HMGET', pool, 'size', 'version')
if version - (set and set[2] or 0) <= 0 and number - (set and set[1] or size) < 0 and (free or call('EXISTS', name, queue or name) == 0) then
  -- include inline/take
  if set == 1 then
    local bound = 'GT'
    -- include inline/book
  end
end
