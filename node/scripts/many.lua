-- Do many operations on one name each, in order, with one look at the marker and the clock.
--
-- KEYS      for each operation the name; then its readers if it is read, or the index if it is a slot,
--           and the pool if a slot is taken; with QUEUES then the key of its queue unless it is renewed;
--           at last the marker and the fences. If this user must not touch one of them, nothing was done
-- ARGV[1]   an array in MessagePack, which costs less than separate arguments. It has
--             TTL in ms
--           and for each operation, one after the other:
--             'acquire'   owner, token, first and last offset of the fence; in FIFO order
--             'barge'     the same; takes a free name past the waiters
--             'reserve'   the same, last token of the block; in FIFO order
--             'renew'     owner, token, first and last offset of the fence
--             'extend'    the same for a slot
--             'release'   owner, first offset of the fence
--             'announce'  the same, and Redisson's clients are told
--             'read'      owner, time of the client's clock as a token, first and last offset of the fence
--             'unread'    owner, first offset of the fence
--             'slot'      owner, token, first and last offset of the fence, size and version of the pool
--             'vacate'    owner, first offset of the fence
--           all of them as text
-- Reply     the reply of its own script for each operation, with a digit for a number, or an
--           error; if all are digits, one text of them. An operation that needs more keys than are
--           declared changes nothing, and has the reply {'KEYS'}: it is run again alone
--           {'KEYS'}  the node may have queues, and they are not declared: nothing was done
--           If they are declared, and the node has none, there is one more item: '-'
--
-- Servers run this script most. So it does little for each operation, and makes no function
-- before it is needed.

local argv, call, names = cmsgpack.unpack(ARGV[1]), redis.call, KEYS
local ttl = argv[1]
local width = {acquire = 5, barge = 5, reserve = 6, renew = 5, extend = 5, read = 5, slot = 7, release = 3, announce = 3, unread = 3, vacate = 3}
local declared = {renew = 1, extend = 2, read = 2, unread = 2, slot = 3, vacate = 2} -- 1 for the others
if QUEUES then
  declared = {renew = 1, extend = 2, read = 3, unread = 3, slot = 4, vacate = 3} -- 2 for the others
end
local usually, needed = QUEUES and 2 or 1, false

-- Most batches find no queue on the whole node. Then they need not declare one for each name, which
-- would cost more than all else that is said of a name. A marker that was lost has forgotten the queues.
local marker = redis.pcall('HMGET', MARKER, 'queues', 'open')
local seal = not marker.err and marker[2]
local queued = (seal or '') == ''
if not queued and marker[1] then
  local time = redis.pcall('TIME')
  queued = time.err or (tonumber(marker[1]) or 1 / 0) >= time[1] * 1000 + time[2] / 1000
end

-- One call finds out whether any of the names to acquire or to release is held or waited for.
-- Usually none is. A name that occurs twice is looked at when its turn comes.
local looked, known, n, at, k = {}, {}, 0, 2, 1
local count = #argv
while at <= count do
  local kind, name = argv[at], names[k]
  local steps, following = width[kind], k + (declared[kind] or usually)
  if kind ~= 'renew' and kind ~= 'extend' then
    needed = true
    if QUEUES then
      n = n + 1
      looked[n] = names[following - 1]
    end
    local other = kind == 'read' and names[k + 1] or kind == 'slot' and names[k + 2]
    if other then
      n = n + 1
      looked[n] = other
    end
  end
  if known[name] ~= nil then
    known[name] = false
  else
    known[name] = true
    if steps > 3 and kind ~= 'renew' and kind ~= 'extend' then
      n = n + 1
      looked[n] = name
    end
  end
  at, k = at + steps, following
end
if queued and needed and not QUEUES then
  return {'KEYS'}
end
-- It uses pcall, since one name that this user must not touch must not fail the others.
local quiet = n > 0 and redis.pcall('EXISTS', unpack(looked)) == 0

local open, time, now, ends, oldest, newest, settled, floor

-- rarely makes the functions for operations that the short way cannot do.
local functions
local function rarely()
  if functions then
    return functions
  end
  -- include lib/key
  -- include lib/recovery
  -- include lib/refusal
  -- include lib/fence
  -- include lib/put
  -- include lib/contend
  -- include lib/book
  -- include lib/prolong
  -- include lib/announce
  -- include lib/give
  -- include lib/readers
  -- include lib/vacancies
  local listed, clock, recovering = 0, nil, nil
  local function look()
    if not clock then
      clock, recovering = guard(RECOVERY)
    end
  end
  functions = {
    refused = function(token, last)
      look()
      return refusal(clock, recovering, tonumber(ttl), token, last, MAX_TTL, MAX_SKEW) or #token ~= 16 and {'KEYS'} or nil
    end,
    acquire = function(name, owner, token, last, fair, place)
      places[name] = place
      return contend(nil, {name}, owner, ttl, token, last, fair) -- without a waiter it needs no clock
    end,
    renew = function(name, owner, token, place)
      places[name] = place
      look()
      return prolong(clock, recovering, {name}, owner, ttl, token)
    end,
    give = give,
    unread = function(name, owner)
      local time = time or call('TIME')
      return unread(name, owner, false, time[1] * 1000 + math.floor(time[2] / 1000))
    end,
    -- occupied denies a slot. To list the free slots of a large pool takes long, and a script blocks the server. So once
    -- many are listed, further denials run alone.
    occupied = function(pool, name, owner, size, version, place)
      places[name] = place
      local all = redis.pcall('HKEYS', name)
      local taken = all[1]
      size, version = in_force(pool, size, version)
      if all.err or taken == owner or not taken and number_of(name) < size or listed > 2048 then
        return {'KEYS'}
      end
      local seen, spots = fence(name), vacancies(pool, size, now, taken and string.match(name, '%d+', 19))
      listed = listed + #spots.free
      return denied({name, taken or '', 0, seen}, spots, 1, 0, nil, version)
    end,
  }
  return functions
end

local replies, digits = {}, {[0] = '0', '1', '2'}
local late -- the places of fences, and the second keys, of operations that need more keys: others with these must come behind. The
-- second key of a lock may be the name of the next operation, which then runs again in vain
n, at, k = 0, 2, 1
local function run()
  while at <= count do
    local kind, name, second, owner, token, place, stop, reply = argv[at], names[k], names[k + 1], argv[at + 1], argv[at + 2], argv[at + 3], argv[at + 4], nil
    local releases, queue = width[kind] == 3, QUEUES and names[k + (declared[kind] or usually) - 1]
    if late and (late[releases and token or place] or late[second]) then
      reply = {'KEYS'}
    elseif releases then
      if not quiet and queue and redis.pcall('EXISTS', queue) ~= 0 then
        reply = {'KEYS'}
      elseif kind == 'unread' then
        local list = second
        -- include inline/unread
        reply = reply or rarely().unread(name, owner)
      else
        local index = kind == 'vacate' and second
        -- include inline/remove
        if reply ~= 0 and (reply ~= 1 or kind == 'announce') then
          reply = rarely().give(name, owner, kind == 'announce', reply)
        end
      end
    else
      if not time then
        -- include inline/look
        now = time[1] * 1000 + math.floor(time[2] / 1000)
        ends = string.format('%.0f', now + ttl)
      end
      if kind == 'renew' or kind == 'extend' then
        if open then
          settled = settled or time[1] - SETTLED .. '000000'
          -- include inline/extend
          if reply and kind == 'extend' then
            local index, number, bound = second, string.match(name, '%d+', 19), 'GT'
            -- include inline/book
          end
        end
        if not reply then
          reply = redis.pcall('HGET', name, owner) and rarely().renew(name, owner, token, place) or {'KEYS'}
        end
      else
        local last, free = kind == 'reserve' and argv[at + 5] or token, quiet and known[name]
        -- include inline/plausible
        reply = not plausible and rarely().refused(token, last) or nil
        if reply then -- it is refused, or runs again
        elseif kind == 'read' then
          local list = second
          -- include inline/read
        elseif kind == 'slot' then
          local index, pool, size, version = second, names[k + 2], argv[at + 5], argv[at + 6]
          -- include inline/slot
          reply = reply or rarely().occupied(pool, name, owner, size, version, place)
        elseif free or call('EXISTS', name, queue or name) == 0 then
          -- include inline/take
        else
          reply = rarely().acquire(name, owner, token, last, queue and kind ~= 'barge', place)
        end
      end
    end
    n = n + 1
    replies[n] = digits[reply] or reply
    if reply ~= 1 and replies[n] == reply and reply[1] == 'KEYS' then
      late = late or {}
      late[releases and token or place], late[second] = true, true
    end
    at, k = at + width[kind], k + (declared[kind] or usually)
  end
end

-- An operation that fails gets the error as its reply, and the next one follows.
while at <= count do
  local ok, err = pcall(run)
  if not ok then
    n = n + 1
    replies[n] = type(err) == 'table' and err or redis.error_reply(err) -- a string before Redis 7
    at, k = at + width[argv[at]], k + (declared[argv[at]] or usually)
  end
end

if QUEUES and not queued then
  replies[n + 1] = '-'
end
local plain, text = pcall(table.concat, replies)
return plain and text or replies
