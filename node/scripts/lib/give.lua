-- give removes a name that an owner holds. It returns how many were removed, or what kept it
-- from being removed. own is what HDEL has said already, or nil.
--
-- A key of another type is not the owner's and not a reason to keep the others, hence
-- pcall: an undo must undo all that it can.
local function give(name, owner, told, own)
  own = own or redis.pcall('HDEL', name, owner) -- the key goes with its last field
  if own == 1 and told then
    announce(name)
  elseif type(own) == 'table' and string.find(own.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return own
end
