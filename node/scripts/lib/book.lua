-- The index of a pool is a sorted set of its slots, by the time in ms until which each is held, or 0. With it a denial
-- names the free slots, and need not look at all of them, which nobody has declared. Whoever takes, extends, shortens or
-- removes a slot notes that. Only the slot itself says who holds it: an index that is wrong, since somebody deleted a
-- key by hand, costs an attempt, or some waiting until that time.
--
-- The index outlives its last entry, since no client has a TTL beyond the recovery of another one.

-- index returns the key of the index, and the number of the slot, or nothing for another name.
local function index(name)
  local number = string.match(name, '^quorumlock:permit:(%d+):')
  return number and 'quorumlock:slots' .. string.sub(name, 19 + #number), number
end

-- indexed returns 1 if a name is a slot, whose index is declared behind the keys of the names, and otherwise 0.
local function indexed(name)
  return index(name) and 1 or 0
end

-- book notes until when a slot is held, or with the bound XX that it is held no longer: see inline/book. It does nothing for
-- another name.
local function book(name, bound, ends)
  local index, number = index(name)
  if index then
    -- include inline/book
  end
end
