-- Take slots of a pool for one owner, all or none, and accept its fencing token; or queue its
-- waiter.
--
-- KEYS[1..4]  the pool; queue and waiting of its queue; its index
-- KEYS[5..]  the slots; the marker; the fences
-- ARGV[1]    owner
-- ARGV[2]    TTL in ms
-- ARGV[3]    proposed token, in us of the client's clock: the fence of each slot
-- ARGV[4]    offsets of the slots' fences: see locate
-- ARGV[5]    size of the pool that the caller knows
-- ARGV[6]    version of that size
-- ARGV[7]    waiter that gets an entry in the queue of the pool if this is denied, or none
-- ARGV[8]    its ticket
-- ARGV[9]    how long its entry lives, in ms
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
--            and the replies of guard
--
-- See acquire for the order of reads and writes, and for tokens. The owner keeps the slots that
-- it has, even if the pool has become smaller since.

local call, pool, name, owner, ttl, token = redis.call, KEYS[1], KEYS[5], ARGV[1], ARGV[2], ARGV[3]
local place, size, version, waiter, last = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[3]
local open, time, seal, reply
-- include inline/look
local ahead = (tonumber(string.sub(token, 1, -7)) or 0) - time[1]
open = open and ttl - MAX_TTL <= 0 and ahead >= OLDEST and ahead <= NEWEST and #token == 16

-- include lib/book
local found = open and not KEYS[8] and call('EXISTS', name, KEYS[2], pool)
if found == 0 or found == 1 then
  local set = found == 1 and call('HMGET', pool, 'size', 'version') or {}
  if (set[1] or found == 0) and version - (set[2] or 0) <= 0 and string.match(name, '%d+') - (set[1] or size) < 0 then
    local stop = place + 15
    -- include inline/take
    if set == 1 then
      book(name, time[1] * 1000 + math.floor(time[2] / 1000), ttl, RECOVERY)
    end
    return reply
  end
end

-- include lib/key
-- include lib/recovery
-- include lib/refusal
-- include lib/fence
-- include lib/put
-- include lib/queue
-- include lib/vacancies
-- include lib/pool
local names = {unpack(KEYS, 5, #KEYS - 2)}
locate(names, place)
local now, need, set = time[1] * 1000000 + time[2], #names, nil
if not open then
  local recovering
  now, recovering = guard(RECOVERY)
  local refused = refusal(now, recovering, tonumber(ttl), token, token, MAX_TTL, MAX_SKEW)
  if refused then
    return refused
  end
end
now = math.floor(now / 1000)

size, version, set = in_force(pool, size, version)
local denial, taken
local known, low, free, own = 0, {}, 0, {}
for _, name in ipairs(names) do
  local holder = redis.pcall('HKEYS', name)
  if holder.err then
    book(name, now, 60000, RECOVERY) -- a key of another type: do not offer this slot
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

local queued = (waiter or FAIR) and redis.call('EXISTS', key('queue', pool)) == 1
local line, spots
if queued or waiter and denial then
  line = pools()
  line.queue.sound(pool, waiter)
end
if denial or queued and FAIR and free > 0 then
  spots = vacancies(pool, size, now, taken)
  if waiter then
    line.queue.enter_all({pool}, waiter, ARGV[8], tonumber(ARGV[9]), now)
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
    local rank = waiter and redis.call('ZRANK', key('queue', pool), waiter) or 0
    return denied(denial, spots, need, rank, left, version)
  end
end

for _, name in ipairs(names) do
  local failure = put(name, owner, ttl, token, own[name])
  if failure then
    return failure
  end
  book(name, now, ttl, RECOVERY)
end
if line and waiter then
  line.took(pool, waiter, now)
end
raise(low, token)
if version > set then
  redis.call('HSET', pool, 'size', size, 'version', ARGV[6])
end
return known > 0 and {known} or 1
