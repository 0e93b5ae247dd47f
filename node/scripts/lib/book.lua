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

-- note sets a time in an index. It uses pcall: a release or a renewal must succeed on a node without memory. A user that
-- does not wait may lack the right, and then the index would be wrong.
local function note(slots, ...)
  if type(redis.pcall('ZADD', slots, ...)) ~= 'number' then
    redis.pcall('DEL', slots)
  end
end

-- book notes that a slot is held for ttl ms, and lets the index live for life ms. It does nothing for another name.
local function book(name, now, ttl, life)
  local slots, number = index(name)
  if slots then
    note(slots, 'GT', now + ttl, number)
    redis.pcall('PEXPIRE', slots, life)
  end
end

-- unbook notes that a slot is free, or held for ttl ms at most.
local function unbook(name, now, ttl)
  local slots, number = index(name)
  if slots then
    note(slots, 'XX', 'LT', ttl and now + ttl or 0, number)
  end
end
