-- contend takes the names, or puts the waiter into their queues. Its arguments and its reply are
-- as in the script acquire; waiter may be nil. whole is set if all keys of the queues are declared. If owner is nil, it takes nothing: it returns only
-- what would deny the names to the waiter.
--
-- It reads everything before it writes, so that a key of another type fails it before any change.
local function contend(now, names, owner, ttl, token, last, fair, whole, waiter, ticket, keep)
  token = tonumber(token)
  local denial
  local known, low, own = 0, {}, {}
  local free, taken, queued, queue = {}, {}, false, nil
  for _, name in ipairs(names) do
    local holder = redis.call('HKEYS', name)[1]
    local seen = fence(name)
    if holder and holder ~= owner then
      local left = redis.call('PTTL', name)
      if not denial or left == -1 or (denial[3] ~= -1 and left > denial[3]) then
        denial = {name, holder, left, seen}
      end
    end
    if holder and holder ~= owner then
      taken[#taken + 1] = name
    elseif fair and not holder then
      free[#free + 1] = {name, '', 0, seen}
    end
    if seen < token then
      low[#low + 1] = name
    elseif seen > known then
      known = seen
    end
    own[name] = holder == owner
    queued = queued or (waiter or fair) and redis.call('EXISTS', key('queue', name)) == 1
  end

  if waiter and denial or queued and not denial then
    if not whole then
      return {'KEYS'}
    end
    queue = queues()
    for _, name in ipairs(names) do
      queue.sound(name, waiter)
    end
    now = math.floor(now / 1000)
    if waiter and (denial or fair) then
      queue.enter_all(names, waiter, ticket, tonumber(keep), now)
      queue.came(taken, waiter)
    end
    if not denial and fair then
      if not waiter then
        queue.prune_all(names, now) -- enter_all has done it for a waiter
      end
      local left = {}
      for _, other in ipairs(free) do
        local ms, first = queue.precedence(other[1], waiter, now)
        other[3] = ms or 0
        if first then
          left[#left + 1] = other[1]
        end
        if other[3] > (denial and denial[3] or 0) then
          denial = other
        end
      end
      queue.came(left, waiter)
    end
    if denial and waiter then
      denial[5] = redis.call('ZRANK', key('queue', denial[1]), waiter) or 0
    end
  end
  if denial or not owner then
    return denial
  end

  for _, name in ipairs(names) do
    local failure = put(name, owner, ttl, last, own[name])
    if failure then
      return failure
    end
  end
  if queue and waiter and fair then
    queue.expect_all(names, waiter, now) -- if the owner gives them back, others no longer wait for it
  end
  raise(low, last)
  return known > 0 and {known} or 1
end
