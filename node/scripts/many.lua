-- Do many operations on one name each, in order, with one look at the marker and the clock.
--
-- KEYS      none, though there are: a name that this user may not touch then fails its own
--           operation only
-- ARGV[1]   an array in MessagePack, as arguments of their own cost more, of
--             MaxTTL of the client in ms
--             MaxClockSkew of the client in ms
--             TTL in ms
--             what stands before a name where something is kept for it, and what behind: see key
--           and for each operation, one behind the other:
--             'acquire'   name, owner, token: one that takes its turn
--             'barge'     the same, of one that takes a free name whoever waits
--             'reserve'   name, owner, token, last token: one that takes its turn
--             'renew'     name, owner, token
--             'release'   name, owner
--             'announce'  the same, and Redisson's clients are told
--           all of them as text
-- Reply     for each operation what its own script replies, but a digit for a number, or an
--           error; if all are digits, one text of them
--
-- This is the script that servers run most: it is written to do little for each operation.

local argv, first = cmsgpack.unpack(ARGV[1]), 6
local width = {acquire = 4, barge = 4, reserve = 5, renew = 4, release = 3, announce = 3}
local queue, fence, rest = 'quorumlock:queue:' .. argv[4], 'quorumlock:fence:' .. argv[4], argv[5]

-- One call finds out whether anybody has or waits for any of the names that are to be taken
-- or given. Mostly nobody does. Names that come up twice are looked at when it is their turn.
local looked, known, n, at = {}, {}, 0, first
local count = #argv
while at <= count do
  local kind, name = argv[at], argv[at + 1]
  local steps = width[kind]
  if kind ~= 'renew' then
    n = n + 1
    looked[n] = queue .. name .. rest
  end
  if known[name] ~= nil then
    known[name] = false
  else
    known[name] = true
    if kind ~= 'renew' and steps > 3 then
      n = n + 1
      looked[n] = name
    end
  end
  at = at + steps
end
-- pcall, as one name that this user may not touch must not fail the others.
local quiet = n > 0 and redis.pcall('EXISTS', unpack(looked)) == 0

local ttl, max_ttl, max_skew = tonumber(argv[3]), tonumber(argv[1]), tonumber(argv[2])
local life = max_ttl + max_skew
local now, differs, recovering, oldest, newest, settled
local function look()
  now, differs, recovering = guard(argv[1], argv[2])
  -- What refusal says of tokens, for numbers that are not read. It has the last word.
  oldest, newest = string.format('%.0f', now - max_ttl * 1000 + 1), string.format('%.0f', now + max_skew * 1000)
  -- Nobody can take a smaller token any more than one of then.
  settled = string.format('%.0f', math.max(0, now - life * 1000))
end

local function acquire(kind, name, owner, token, last)
  if not now then
    look()
  end
  if differs or recovering or ttl > max_ttl or not later(token, oldest) or not later(newest, last) then
    local refused = refusal(now, differs, recovering, ttl, token, last, max_ttl, max_skew)
    if refused then -- else oldest is negative
      return refused
    end
  end
  if quiet and known[name] or redis.call('EXISTS', name, queue .. name .. rest) == 0 then
    return take(name, fence .. name .. rest, owner, argv[3], token, last, life)
  end
  return rarely().contend(now, {name}, owner, argv[3], token, last, life, kind ~= 'barge')
end

local function renew(name, owner, token)
  if not now then
    look()
  end
  if not differs and not recovering and ttl <= max_ttl and later(settled, token) and extend(name, owner, ttl, argv[3]) then
    return 1
  end
  return differs or rarely().prolong(now, recovering, {name}, owner, argv[3], max_ttl, max_skew, token)
end

local function release(name, owner, told)
  local own = give(name, owner, told)
  if not quiet and redis.pcall('EXISTS', queue .. name .. rest) == 1 then
    rarely().queues().wake_all({name})
  end
  return own
end

local replies, digits = {}, {[0] = '0', '1', '2'}
n, at = 0, first
local function run()
  while at <= count do
    local kind, name, owner, reply = argv[at], argv[at + 1], argv[at + 2], nil
    if kind == 'release' or kind == 'announce' then
      reply = release(name, owner, kind == 'announce')
    elseif kind == 'renew' then
      reply = renew(name, owner, argv[at + 3])
    else
      reply = acquire(kind, name, owner, argv[at + 3], argv[at + (kind == 'reserve' and 4 or 3)])
    end
    n = n + 1
    replies[n] = digits[reply] or reply
    at = at + width[kind]
  end
end

-- An operation that fails is answered with that, and the next is the next.
while at <= count do
  local ok, err = pcall(run)
  if not ok then
    n = n + 1
    replies[n] = type(err) == 'table' and err or redis.error_reply(err) -- a string before Redis 7
    at = at + width[argv[at]]
  end
end

local plain, text = pcall(table.concat, replies)
return plain and text or replies
