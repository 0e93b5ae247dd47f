-- Take slots of a pool for one owner, all or none, and accept its fencing token; or queue its
-- waiter.
--
-- KEYS[1]    the pool
-- KEYS[2..]  the slots
-- ARGV[1]    owner
-- ARGV[2]    TTL in ms
-- ARGV[3]    recovery of the client in ms
-- ARGV[4]    its limits: see limits
-- ARGV[5]    proposed token, in us of the client's clock: the fence of each slot
-- ARGV[6]    size of the pool that the caller knows
-- ARGV[7]    version of that size
-- ARGV[8]    1 if free slots are left to earlier waiters, else 0
-- ARGV[9]    offsets of the slots' fences: see locate
-- ARGV[10]   waiter that gets an entry in the queue of the pool if this is denied, or none
-- ARGV[11]   its ticket
-- ARGV[12]   how long its entry lives, in ms
-- Reply      1        granted, and the token was taken
--            {fence}  granted; the token was not taken: fence is as large
--            {slot, owner, left, fence, rank, size, version, free}
--                     denied. A slot is held by another owner. Or owner is '': earlier waiters
--                     leave too few slots, or the slot is beyond the pool while enough are free.
--                     In left ms enough may be free. The rank is how many waiters stand before this
--                     one; size and version are those in force; free is a bitmap of the free slots
--            {'CLOCK', now}  the token is too far from the node's clock, in us
--            and the replies of guard
--
-- See acquire for the order of reads and writes, and for tokens. The owner keeps the slots that
-- it has, even if the pool has become smaller since.

local pool, owner, token = KEYS[1], ARGV[1], tonumber(ARGV[5])
local max_ttl, max_skew = limits(ARGV[4])
local fair, waiter, need = ARGV[8] == '1', ARGV[10], #KEYS - 1

locate({unpack(KEYS, 2)}, ARGV[9])
local now, recovering = guard(ARGV[3])
local refused = refusal(now, recovering, tonumber(ARGV[2]), ARGV[5], ARGV[5], max_ttl, max_skew)
if refused then
  return refused
end

local size, version, set = in_force(pool, ARGV[6], ARGV[7])
local denial
local known, low, free, own = 0, {}, 0, {}
for i = 2, #KEYS do
  local name = KEYS[i]
  local holder = redis.call('HKEYS', name)[1]
  local seen = fence(name)
  if holder and holder ~= owner then
    denial = {name, holder, 0, seen}
  elseif not holder then
    free = free + 1
    if number_of(name) >= size then
      denial = denial or {name, '', 0, seen}
    end
  end
  if seen < token then
    low[#low + 1] = name
  elseif seen > known then
    known = seen
  end
  own[name] = holder == owner
end

local queued = (waiter or fair) and redis.call('EXISTS', key('queue', pool)) == 1
local line, spots
now = math.floor(now / 1000)
if queued or waiter and denial then
  line = pools()
  line.queue.sound(pool, waiter)
end
if denial or queued and fair and free > 0 then
  spots = vacancies(pool, size)
  if waiter then
    line.queue.enter_all({pool}, waiter, ARGV[11], tonumber(ARGV[12]), now)
  elseif line then
    line.queue.prune(pool, now)
  end
  local left, first
  if not denial and fair then
    left, first = line.precedence(pool, waiter, need, now, spots)
    denial = left and {KEYS[2], '', math.max(left, 1), 0}
  end
  -- A waiter that named taken slots while others are free will come again, for those.
  if waiter and (first or denial and not left and #spots.free < need) then
    line.queue.came({pool}, waiter)
  end
  if denial then
    local rank = waiter and redis.call('ZRANK', key('queue', pool), waiter) or 0
    if not left and #spots.free < need then
      denial[3] = after(spots, need - #spots.free + rank)
      if denial[2] == '' and spots.held[1] then -- it named slots beyond the pool, and these are held
        local holders = redis.pcall('HKEYS', slot(pool, spots.held[1]))
        denial[2] = holders[1] or ''
      end
    end
    denial[5], denial[6], denial[7], denial[8] = rank, size, version, spots.map
    return denial
  end
end

for i = 2, #KEYS do
  local failure = put(KEYS[i], owner, ARGV[2], ARGV[5], own[KEYS[i]])
  if failure then
    return failure
  end
end
if line and waiter then
  line.took(pool, waiter, now)
end
raise(low, ARGV[5])
if version > set then
  redis.call('HSET', pool, 'size', size, 'version', ARGV[7])
end
return known > 0 and {known} or 1
