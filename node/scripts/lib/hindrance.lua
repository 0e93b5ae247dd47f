-- hindrance returns what denies the names to a reader, as the script acquireread does, or nil. It also
-- returns the fences of the names, which of them are free, and the functions on their queues if the
-- reader needs them. If the names are denied, the waiter gets its entries; waiter and owner may be nil.
local function hindrance(names, owner, fair, waiter, ticket, keep, now)
  local denial
  local fences, free, asked, taken = {}, {}, {}, {}
  local queued, awaited, queue = false, false, nil
  for _, name in ipairs(names) do
    local holder = redis.call('HKEYS', name)[1]
    local own = reading(name, owner or '', now) -- an error if the key has another type
    fences[name] = fence(name)
    if holder and holder ~= readers then
      local left = redis.call('PTTL', name)
      if not denial or left == -1 or (denial[3] ~= -1 and left > denial[3]) then
        denial = {name, holder, left, fences[name]}
      end
      taken[#taken + 1] = name
    elseif not holder or not own then
      asked[#asked + 1] = name
      free[name] = not holder
    end
    if waiter or fair then
      local found = redis.call('EXISTS', key('queue', name), key('writers', name))
      -- Without an index, all waiters in the queue are writers.
      awaited = awaited or found == 2 or found == 1 and not redis.call('HGET', key('waiting', name), '+')
      queued = queued or found > 0
    end
  end

  if waiter and denial or queued and (waiter or not denial) then
    queue = queues()
    for _, name in ipairs(names) do
      queue.sound(name, waiter)
    end
    local looks = fair and awaited -- a reader leaves names only to waiting writers
    if waiter and (denial or looks) then
      queue.enter_all(names, waiter, ticket, keep, now)
      queue.came(taken, waiter)
    end
    if not denial and looks then
      if not waiter then
        queue.prune_all(names, now)
      end
      local left = {}
      for _, name in ipairs(asked) do
        local ms, first = queue.intent(name, waiter, now, free[name])
        if first then
          left[#left + 1] = name
        end
        if (ms or 0) > (denial and denial[3] or 0) then
          denial = {name, free[name] and '' or readers, ms, fences[name]}
        end
      end
      queue.came(left, waiter)
    end
    if denial and waiter then
      denial[5] = redis.call('ZRANK', key('queue', denial[1]), waiter) or 0
    end
  end
  return denial, fences, free, queue
end
