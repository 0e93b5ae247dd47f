-- The usual case of a release with waiters: the owner's waiter leaves the queue, the first of the
-- others is woken, and the second one stands by. The rest is left to wake: a waiter that does not
-- get the message, one that was woken before, readers, late waiters, and errors. Then wake repeats
-- the writes made here, without effect, and may send a message twice.
local waiting = KEYS[3]
local others = redis.pcall('ZRANGE', queue, 0, 2)
local first, second = others[1], others[2]
if first and first == waiter then
  first, second = second, others[3]
elseif second and second == waiter then
  second = others[3]
end
local known = redis.pcall('HMGET', waiting, '', '+', first or '', '+' .. (first or ''))
if not others.err and not known.err and not known[2] and redis.pcall('EXISTS', name) == 0 then
  local left = not waiter or redis.pcall('ZREM', queue, waiter)
  if not first then
    if type(left) ~= 'table' and type(redis.pcall('DEL', waiting)) == 'number' then
      return own
    end
  elseif known[3] and not known[4] then
    local timed, time = pcall(redis.call, 'TIME')
    local now, due = timed and time[1] * 1000 + math.floor(time[2] / 1000), tonumber(known[1])
    if waiter and type(left) ~= 'table' then
      left = redis.pcall('HDEL', waiting, waiter, '+' .. waiter)
    end
    local token = redis.pcall('GETRANGE', FENCES, ARGV[2], ARGV[2] + 15)
    if type(left) ~= 'table' and type(token) == 'string' and timed and not (due and due <= now) then
      local rest = ' ' .. string.format('%.0f', tonumber(token) or 0) .. ' '
      local heard = redis.pcall('PUBLISH', 'quorumlock:inbox:' .. string.match(first, '^[^:]*'),
        'woken' .. rest .. #first .. ' ' .. first .. name)
      if type(heard) == 'number' and heard > 0 then
        redis.pcall('HSET', waiting, '+' .. first, now)
        if not second then
          return own
        end
        heard = redis.pcall('PUBLISH', 'quorumlock:inbox:' .. string.match(second, '^[^:]*'),
          'standby' .. rest .. #second .. ' ' .. second .. name)
        if type(heard) == 'number' and heard > 0 then
          return own
        end
      end
    end
  end
end
