-- wake wakes the first waiter of a name that is free, except one, and tells the next to
-- stand by. Whom a message does not reach is dead, and is taken out.
local function wake(name, except)
  if redis.call('EXISTS', key('queue', name)) == 0 or redis.call('EXISTS', name) == 1 then
    return
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  prune(name, now)
  local place, kind = 0, 'woken'
  for _ = 1, attempts do
    local waiter = redis.call('ZRANGE', key('queue', name), place, place)[1]
    if not waiter then
      return
    elseif waiter == except then
      place = place + 1
    elseif not reached(kind, name, waiter) then
      dropped(name, waiter)
    elseif kind == 'standby' then
      return
    else
      expect(name, waiter, now)
      place, kind = place + 1, 'standby'
    end
  end
end

-- wake_all does that for several names, whatever fails, and returns the last failure. A key
-- of another type where a queue would be is none: nobody can have been waiting there.
local function wake_all(names, except)
  local failure
  for _, name in ipairs(names) do
    local ok, err = pcall(wake, name, except)
    if not ok then
      local text = type(err) == 'table' and err.err or err -- a string before Redis 7
      if not string.find(text, 'WRONGTYPE', 1, true) then
        failure = {err = text}
      end
    end
  end
  return failure
end
