-- Take slots of a pool for one owner, all or none, and accept its fencing token; or queue its
-- waiter.
--
-- KEYS       the first slot; the queue of its pool, and the index; the pool; waiting of the queue; the other slots; the
--            marker; the fences. For a slot without a waiter, waiting is not needed
-- ARGV[1]    owner
-- ARGV[2]    proposed token, in us of the client's clock: the fence of each slot
-- ARGV[3]    offsets of the slots' fences: see locate
-- ARGV[4]    the last offset of the fence of a single slot
-- ARGV[5]    TTL in ms
-- ARGV[6]    size of the pool that the caller knows
-- ARGV[7]    version of that size
-- ARGV[8]    waiter that gets an entry in the queue of the pool if this is denied, or none
-- ARGV[9]    its ticket
-- ARGV[10]   how long its entry lives, in ms
-- Reply      1        granted, and the token was taken
--            {fence}  granted; the token was not taken: fence is as large
--            {slot, owner, left, fence, rank, size, version, free}
--                     denied. A slot is held by another owner. Or the slot is beyond the pool, and
--                     owner is 'quorumlock:permits' for others that hold too many. Or owner is '':
--                     earlier waiters leave too few slots, or the slot is beyond the pool while
--                     enough are free.
--                     In left ms enough may be free. The rank is how many waiters stand before this
--                     one; size and version are those in force; free is a bitmap of the free slots
--            {'CLOCK', now}  the token is too far from the node's clock, in us
--            {'KEYS'}  waiters may have a right to the slot: nothing was done, since keys are missing
--            and the replies of guard
--
-- See acquire for the order of reads and writes, and for tokens. The owner keeps the slots that
-- it has, even if the pool has become smaller since.

local call, name, queue, index, pool, owner, token, place = redis.call, KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[2], ARGV[3]
local stop, ttl, size, version, waiter, last = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], token
local open, time, seal, oldest, newest, reply
-- include inline/look
-- include inline/plausible
local ends = time[1] * 1000 + math.floor(time[2] / 1000) + ttl
if plausible and not KEYS[8] then
  local quiet = call('EXISTS', name, queue, pool) == 0
  local free = quiet
  -- include inline/slot
  if reply then
    return reply
  end
end

-- include inline/admit
-- include lib/key
-- include lib/fence
-- include lib/put
-- include lib/book
-- include lib/queue
-- include lib/vacancies
-- include lib/pool
local names, whole, set = {name, unpack(KEYS, 6, #KEYS - 2)}, KEYS[7], nil
local need = #names
locate(names, place)
now = math.floor(now / 1000)

size, version, set = in_force(pool, size, version)
local denial, taken
local known, low, free, own = 0, {}, 0, {}
for _, name in ipairs(names) do
  local holder = redis.pcall('HKEYS', name)
  if holder.err then
    book(name, 'GT', now + 60000) -- a key of another type: do not offer this slot
    return holder
  end
  holder = holder[1]
  local seen = fence(name)
  if holder and holder ~= owner then
    denial, taken = {name, holder, 0, seen}, string.match(name, '%d+')
  elseif not holder then
    free = free + 1
    if number_of(name) >= size then
      denial = denial or {name, '', 0, seen}
    end
  end
  if seen < tonumber(token) then
    low[#low + 1] = name
  elseif seen > known then
    known = seen
  end
  own[name] = holder == owner
end

local queued = (waiter or FAIR) and redis.call('EXISTS', queue) == 1
local line, spots
if waiter and denial or queued and (waiter or not denial) then
  if not whole then
    return {'KEYS'}
  end
  line = pools()
  line.queue.sound(pool, waiter)
end
if denial or queued and FAIR and free > 0 then
  spots = vacancies(pool, size, now, taken)
  if waiter then
    line.queue.enter_all({pool}, waiter, ARGV[9], tonumber(ARGV[10]), now)
  elseif line then
    line.queue.prune(pool, now)
  end
  local left, first
  if not denial and FAIR then
    left, first = line.precedence(pool, waiter, need, now, spots)
    denial = left and {name, '', math.max(left, 1), 0}
  end
  -- A waiter that named taken slots while others are free will come again, for those.
  if waiter and (first or denial and not left and #spots.free < need) then
    line.queue.came({pool}, waiter)
  end
  if denial then
    local rank = waiter and redis.call('ZRANK', queue, waiter) or 0
    return denied(denial, spots, need, rank, left, version)
  end
end

for _, name in ipairs(names) do
  local failure = put(name, owner, ttl, token, own[name])
  if failure then
    return failure
  end
  book(name, 'GT', ends)
end
if line and waiter then
  line.took(pool, waiter, now)
end
raise(low, token)
if version > set then
  redis.call('HSET', pool, 'size', size, 'version', ARGV[7])
end
return known > 0 and {known} or 1
