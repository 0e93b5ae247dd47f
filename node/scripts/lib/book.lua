-- soon returns the time, as text, at which a slot with this remaining life ends, but at most a minute from now.
local function soon(now, left)
  return tostring(now + (left == -1 and 60000 or math.max(0, math.min(left, 60000))))
end

-- book tells the index of a pool that one of its slots is held for so many ms from now, or free if now is nil. It does
-- nothing for other names, and while there is no index.
--
-- The index makes a denial cheap. It is a sorted set of all slots, by a time until which each is held or by 0, and it has
-- the size of the pool as -size under an empty name. vacancies makes it. Whoever takes, puts back, shortens or removes a
-- slot books it. A renewal does not, since it would cost too much. So whoever relies on a time that has passed looks at
-- the slot. Only the slot itself says who holds it: an index that is wrong costs an attempt, or some waiting.
local function book(name, now, left)
  local number = string.match(name, '^quorumlock:permit:(%d+):')
  if number then
    local slots = 'quorumlock:slots' .. string.sub(name, 19 + #number)
    local booked = redis.pcall('ZADD', slots, 'XX', now and soon(now, left) or '0', number)
    if type(booked) ~= 'number' then -- a user that does not wait may lack the right, and then the index would be wrong
      redis.pcall('DEL', slots)
    end
  end
end
