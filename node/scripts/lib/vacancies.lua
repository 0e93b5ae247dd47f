-- The free slots of a pool, and the reply to a caller that gets none.

local SLOT, POOL = 'quorumlock:permit:', 'quorumlock:permits'

-- slot returns the name of a slot, by its number from 0 on. For a message about several slots,
-- numbers has commas between them. The number comes before the name of the semaphore, which may
-- itself end with a colon and a number.
local function slot(pool, numbers)
  return SLOT .. numbers .. string.sub(pool, #POOL + 1)
end

-- number_of returns the number of a slot, from its name.
local function number_of(name)
  return tonumber(string.match(name, '^%d+', #SLOT + 1))
end

-- in_force returns the size of a pool, its version, and the version on this node. The size is that
-- of the latest setting that the node or the caller knows.
local function in_force(pool, size, version)
  local set = redis.call('HMGET', pool, 'size', 'version')
  local known = tonumber(set[2]) or 0
  if set[1] and known >= tonumber(version) then
    return tonumber(set[1]), known, known
  end
  return tonumber(size), tonumber(version), known
end

-- vacancies returns the numbers of the free slots of a pool, in ascending order. It asks the index: see book. taken is a
-- slot that the caller found held: if the index is wrong about it, it learns of it. An index with all slots has the size of
-- the pool as -size under an empty name; vacancies adds those that nobody has had, so that the next denial reads the free
-- slots only.
local function vacancies(pool, size, now, taken)
  local slots, free, here = 'quorumlock:slots' .. string.sub(pool, #POOL + 1), {}, {}
  local known = redis.pcall('ZRANGE', slots, '-inf', now, 'BYSCORE')
  if known[1] ~= '' or redis.pcall('ZSCORE', slots, '') ~= tostring(-size) then
    local news, all = {-size, ''}, redis.pcall('ZRANGE', slots, 0, -1)
    for _, number in ipairs(all) do
      here[number] = true
    end
    for i = 0, size - 1 do
      if not here[tostring(i)] then
        known[#known + 1] = tostring(i)
        news[#news + 1], news[#news + 2] = 0, i
      end
    end
    if all[1] then
      redis.pcall('ZADD', slots, unpack(news)) -- without memory, the next denial does so
    end
  end
  for _, number in ipairs(known) do
    if number == taken then
      local name = slot(pool, number)
      local left = redis.call('PTTL', name)
      book(name, 'GT', now + (left < 0 and 60000 or left))
    elseif number ~= '' and tonumber(number) < size then
      free[#free + 1] = tonumber(number)
    end
  end
  table.sort(free)
  return {size = size, now = now, free = free, slots = slots}
end

-- map returns a bitmap of the free slots.
local function map(spots)
  local bytes, count = {}, math.ceil(spots.size / 8)
  if not spots.free[1] then
    return string.rep(string.char(0), count)
  end
  for _, i in ipairs(spots.free) do
    local at = math.floor(i / 8) + 1
    bytes[at] = (bytes[at] or 0) + 2 ^ (i % 8)
  end
  for i = 1, count do
    bytes[i] = string.char(bytes[i] or 0)
  end
  return table.concat(bytes)
end

-- after returns how many ms pass until that many more slots are free, unless a holder releases or renews one earlier. Slots
-- beyond the pool may be held since it was larger. They do not count.
local function after(spots, more)
  more = math.max(1, math.min(more, spots.size - #spots.free))
  local from = 0
  repeat
    local some = redis.call('ZRANGE', spots.slots, '(' .. spots.now, '+inf', 'BYSCORE', 'WITHSCORES', 'LIMIT', from, more)
    for i = 1, #some, 2 do
      more = tonumber(some[i]) < spots.size and more - 1 or more
      if more == 0 then
        return some[i + 1] - spots.now
      end
    end
    from = from + #some / 2
  until not some[1]
  return 0
end

-- denied completes the reply to an acquisition of need slots that is denied behind rank waiters: see permits_acquire. left is
-- set if there are enough slots, which are left to others.
local function denied(denial, spots, need, rank, left, version)
  if not left and #spots.free < need then
    denial[3] = after(spots, need - #spots.free + rank)
    if denial[2] == '' then -- it named slots beyond the pool
      denial[2] = #spots.free < spots.size and POOL or ''
    end
  end
  denial[5], denial[6], denial[7], denial[8] = rank, spots.size, version, map(spots)
  return denial
end
