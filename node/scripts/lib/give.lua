-- give removes a name that the owner holds. It returns how many were removed, or the error. own is
-- the reply of an earlier HDEL, or nil.
--
-- It uses pcall: an undo must release all that it can, and a key of another type is not the
-- owner's.
local function give(name, owner, told, own)
  own = own or redis.pcall('HDEL', name, owner) -- the key goes with its last field
  if own == 1 and told then
    announce(name)
  elseif type(own) == 'table' and string.find(own.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return own
end
