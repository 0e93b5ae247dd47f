-- Read who holds the names.
--
-- KEYS      the names of the locks
-- Reply     {name, owner, pttl, name, owner, pttl, ...} for the names that are held

local found = {}
for _, name in ipairs(KEYS) do
  local holder = redis.call('HKEYS', name)[1]
  if holder then
    found[#found + 1] = name
    found[#found + 1] = holder
    found[#found + 1] = redis.call('PTTL', name)
  end
end
return found
