-- Remove a name that the owner holds: the key goes with its last field.
reply = redis.pcall('HDEL', name, owner)
if index and reply == 1 then
  local number, bound, ends = string.match(name, '%d+', 19), 'XX', '0'
  -- include inline/book
end
