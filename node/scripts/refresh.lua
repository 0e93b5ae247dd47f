-- Say how each of many waiters stands, and keep their entries, as an attempt that is denied does. It takes no name.
--
-- KEYS      for each waiter: the names, and the keys of their queues and readers; or the pool, the keys
--           of its queue, and its index. And the marker and the fences
-- ARGV[1]   an array in MessagePack. It has how long entries live, in ms, and for each waiter, one after
--           the other:
--             'lock' or 'read'  waiter, ticket, number of names, then each name and the offset of its fence
--             'pool'            waiter, ticket, pool, size and version as for permits_acquire
--           all of them as text
-- Reply     four values for each waiter, one after the other:
--             place, owner, pttl, rank  another owner holds the name at this place in the list, or too few
--                                       slots are free: after pttl ms enough may be
--             place, '', left, rank     it is free, but left to another waiter for left ms
--             1, '', 0, rank            no other waiter is in the way: an attempt may succeed
--             0, '', 0, 0               an error, such as a key of another type

-- include lib/key
-- include lib/fence
-- include lib/put
-- include lib/queue
-- include lib/contend
-- include lib/readers
-- include lib/hindrance
-- include lib/book
-- include lib/vacancies
-- include lib/pool
local argv, call = cmsgpack.unpack(ARGV[1]), redis.call
local keep, time = tonumber(argv[1]), call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)

-- One run makes the functions on queues once, since that costs more than their use.
local make, made = queues, nil
queues = function(pooled)
  if pooled then
    return make(true)
  end
  made = made or make()
  return made
end

-- held handles the usual case, and else returns nothing: another owner holds the name, and the waiter has an
-- entry and is not expected. It extends the entry only if that gains a second. See enter.
local function held(name, waiter)
  local holder = call('HKEYS', name)[1]
  if not holder or holder == readers then
    return nil
  end
  local queue, waiting = key('queue', name), key('waiting', name)
  local known = call('HMGET', waiting, '', '-', '+', waiter, '+' .. waiter)
  local due, ends, deadline = tonumber(known[1]), tonumber(known[2]) or 0, tonumber(known[4])
  local rank, life = call('ZRANK', queue, waiter), now + keep
  if known[5] or not deadline or not rank or due and due <= now then
    return nil
  end
  if life - deadline > 1000 then
    if known[3] or ends >= 2 ^ 53 then
      return nil
    end
    ends = math.max(life, ends)
    call('HSET', waiting, waiter, life, '-', ends)
    -- include inline/queued
    call('PEXPIRE', queue, ends - now)
    call('PEXPIRE', waiting, ends - now)
  end
  return {name, holder, call('PTTL', name), 0, rank}
end

local replies, line = {}, nil
local function answer(place, owner, left, rank)
  local n = #replies
  replies[n + 1], replies[n + 2], replies[n + 3], replies[n + 4] = place, owner, left, rank
end

local at = 2
while at <= #argv do
  local kind, waiter, ticket = argv[at], argv[at + 1], argv[at + 2]
  local ok, denial, names = false, nil, {argv[at + 3]}
  if kind == 'pool' then
    line = line or pools()
    ok, denial = pcall(line.stand, names[1], argv[at + 4], argv[at + 5], waiter, ticket, keep, now)
    at = at + 6
  else
    local n = tonumber(argv[at + 3])
    for i = 1, n do
      names[i] = argv[at + 2 + 2 * i]
      places[names[i]] = argv[at + 3 + 2 * i]
    end
    at = at + 4 + 2 * n
    if n == 1 then
      ok, denial = pcall(held, names[1], waiter)
      denial = ok and denial
    end
    if not denial and kind == 'read' then
      ok, denial = pcall(hindrance, names, nil, true, waiter, ticket, keep, now)
    elseif not denial then
      ok, denial = pcall(contend, micros, names, nil, 0, '0', '0', true, true, waiter, ticket, keep)
    end
  end
  if not ok then
    answer(0, '', 0, 0)
  elseif not denial then
    answer(1, '', 0, 0)
  else
    for i, name in ipairs(names) do
      if name == denial[1] then
        answer(i, denial[2], denial[3], denial[5])
      end
    end
  end
end
return replies
