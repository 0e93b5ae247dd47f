-- Remove the names that the owner holds.
--
-- KEYS      the names of the locks
-- ARGV[1]   owner
-- Reply     how many names were removed
--
-- A key of another type is not the owner's and not a reason to keep the others, hence
-- pcall: an undo must undo all that it can.

local removed = 0
for _, name in ipairs(KEYS) do
  if redis.pcall('HEXISTS', name, ARGV[1]) == 1 then
    removed = removed + redis.call('DEL', name)
  end
end
return removed
