-- The usual cases of a waiter in FIFO order: another owner holds the name, the name is left to the
-- woken head of the queue, or the waiter is the head. The rest is left to contend: readers in the
-- queue, a head that was not woken, late waiters, and errors. Then contend repeats the writes made
-- here, without effect. See enter, patience and precedence.
local holder, head = call('HKEYS', name)[1], nil
if not holder then
  head = call('ZRANGE', queue, 0, 0)[1]
  free = not head
end
if not free and holder ~= owner then
  local waiting, expected, keep = KEYS[3], '+' .. waiter, tonumber(ARGV[9])
  local known = call('HMGET', waiting, '', '-', '+', waiter, expected, '+' .. (head or ''))
  local due, ends, deadline, ahead = tonumber(known[1]), tonumber(known[2]), tonumber(known[4]), tonumber(known[6])
  local now, left = time[1] * 1000 + math.floor(time[2] / 1000), nil
  local life, first = now + keep, head == waiter
  if holder then
    left = call('PTTL', name)
  elseif ahead and not first then
    left = ahead + math.min(math.max(tonumber(string.match(head, '@(%d+)r?$')) or 0, 50), 500) - now
  end
  local lasts = deadline and life - deadline <= keep / 32
  local longer = not (ends and ends < 2 ^ 53 and life - ends <= keep / 32)
  if known[3] or keep <= 0 or due and due <= now or not (holder or first or left and left > 0) then
    left = nil
  elseif first and known[5] and lasts and not longer then
    left, free = nil, true
  else
    -- All reads of keys that may have another type come before the first write.
    local seen = tonumber(call('GETRANGE', FENCES, place, stop)) or 0
    local added = not deadline and redis.pcall('ZADD', queue, 'NX', ARGV[8], waiter)
    local rank = type(added) ~= 'table' and call('ZRANK', queue, waiter)
    local done = rank and (rank > 0 or holder or first)
    if done and not lasts then
      deadline = life -- it is later than before
      if due and due <= deadline then
        done = redis.pcall('HSET', waiting, waiter, deadline)
      else
        done = redis.pcall('HSET', waiting, waiter, deadline, '', deadline)
      end
    end
    if done and type(done) ~= 'table' then
      if longer or added == 1 and rank == 0 then
        ends = math.max(life, ends and ends < 2 ^ 53 and ends or 0)
        call('HSET', waiting, '-', ends)
        -- include inline/queued
        call('PEXPIRE', queue, ends - now)
        call('PEXPIRE', waiting, ends - now)
      end
      if first then
        free = true
        if not known[5] then
          call('HSET', waiting, expected, now)
        end
      else
        if known[5] then
          call('HDEL', waiting, expected)
        end
        return {name, holder or '', left, seen, rank}
      end
    end
  end
end
