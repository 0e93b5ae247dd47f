-- prolong extends the names to another TTL, and puts back those that are absent. Its arguments and
-- its reply are as in the script renew; recovering is what guard returned. A name that the owner does not
-- hold needs its tombstone.
local function prolong(now, recovering, names, owner, text, last)
  local ttl = tonumber(text)
  if ttl > MAX_TTL then
    return {'SETTINGS', MAX_TTL, MAX_SKEW}
  end
  -- The fence comes back with the lock while acquire could still accept a smaller token of any client.
  local token = tonumber(last)
  local fenced = token > now - RECOVERY * 1000 and token <= now + MAX_SKEW * 1000
  local short, absent, low, denial = {}, {}, {}, nil

  for _, name in ipairs(names) do
    local holder = redis.call('HKEYS', name)[1]
    if holder == owner then
      if redis.call('PTTL', name) < ttl then
        short[#short + 1] = name
      end
    elseif buried(name, owner, now) then
      return {name, '', 0, 0} -- even if another owner holds the name now
    elseif holder then
      -- A writer can show that the lease is lost. Readers name no single owner.
      if not denial or denial[2] == 'quorumlock:readers' and holder ~= denial[2] then
        denial = {name, holder, redis.call('PTTL', name), token_of(name, holder)}
      end
    else
      absent[#absent + 1] = name
    end
    if fenced and fence(name) < token then
      low[#low + 1] = name
    end
  end
  if denial then
    return denial
  end

  -- A node that is out of memory executes PEXPIRE, but not HSET and SETRANGE. So existing locks are
  -- extended first.
  for _, name in ipairs(short) do
    redis.call('PEXPIRE', name, text)
    book(name, 'GT', math.floor(now / 1000) + ttl)
  end
  for _, name in ipairs(absent) do
    local failure = put(name, owner, text, last)
    if failure then
      return failure
    end
    book(name, 'GT', math.floor(now / 1000) + ttl)
  end
  raise(low, last)
  local done = #absent > 0 and 2 or 1
  return recovering and {done, recovering[2] or RECOVERY, recovering[3] or 0} or done
end
