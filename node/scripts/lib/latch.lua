-- latches reads what the node knows of a latch, and makes the functions about it. There are
-- three keys:
--
--   latch     hash: generation, the token of the last deletion; count, what it was set to;
--             since, the token with which it was; last, the largest token that came with an
--             operation; whole, the end of the recovery after which it was given back; born,
--             when the node was told that the latch is set, in us of its own clock
--   latched   sorted set of the ids that have counted down, by place: the n-th that the node was
--             told has the score n
--   awaiting  sorted set of the inboxes of those who wait, by deadline, in ms
--
-- All of it lives for the TTL of the last operation that found the latch set.
local function latches(name)
  local meta, ids, awaiting = key('latch', name), key('latched', name), key('awaiting', name)
  local found = redis.call('HMGET', meta, 'generation', 'count', 'since', 'last', 'whole', 'born')
  local over = tonumber(redis.call('HGET', 'quorumlock:node', 'until')) or 0
  local s = {
    generation = tonumber(found[1]) or 0, count = tonumber(found[2]) or 0, since = tonumber(found[3]) or 0,
    last = tonumber(found[4]) or 0, over = over, whole = over ~= 0 and tonumber(found[5]) == over,
    born = tonumber(found[6]) or 0,
    size = redis.call('ZCARD', ids), -- all is read before the first write: a key of another type fails
  }

  -- plausible reports whether the node may take a token, in us: as with those of locks.
  function s.plausible(token, now, max_ttl, max_skew)
    return token <= now + max_skew * 1000 and token > now - max_ttl * 1000
  end

  -- live has the latch live for ms at least, from now on.
  function s.live(ms)
    for _, k in ipairs({meta, ids}) do
      if redis.call('PTTL', k) < ms then
        redis.call('PEXPIRE', k, ms)
      end
    end
  end

  -- begin forgets the latch, and begins another generation. It returns how long the old one
  -- would have lived.
  function s.begin(generation)
    local left = redis.call('PTTL', meta)
    redis.call('HSET', meta, 'generation', generation)
    redis.call('HDEL', meta, 'count', 'since', 'last', 'whole', 'born')
    redis.call('DEL', ids)
    s.generation, s.count, s.since, s.last, s.whole, s.born, s.size = tonumber(generation), 0, 0, 0, false, 0, 0
    return left
  end

  -- set sets the latch.
  function s.set(count, since, now)
    if s.born == 0 then
      s.born = now
    end
    redis.call('HSET', meta, 'generation', s.generation, 'count', count, 'since', since, 'born', s.born)
    s.count, s.since = tonumber(count), tonumber(since)
  end

  -- note notes the token of an operation.
  function s.note(token)
    if token > s.last then
      redis.call('HSET', meta, 'last', token)
      s.last = token
    end
  end

  -- refill notes that the node was given back what it had forgotten.
  function s.refill()
    redis.call('HSET', meta, 'whole', over)
    s.whole = true
  end

  -- add counts down for the ids from the first-th argument on.
  function s.add(first)
    for i = first, #ARGV do
      s.size = s.size + redis.call('ZADD', ids, 'NX', s.size + 1, ARGV[i])
    end
  end

  -- await notes an inbox for keep ms, or forgets it if that is 0. It forgets inboxes that have not
  -- come for too long.
  -- Who waits comes again by itself, so it is no failure that a node has no memory for it, or
  -- that the user lacks a right, hence pcall.
  function s.await(inbox, keep, now)
    local late = redis.pcall('ZRANGE', awaiting, '-inf', now, 'BYSCORE', 'LIMIT', 0, 1000)
    if #late > 0 then
      redis.pcall('ZREM', awaiting, unpack(late))
    end
    if keep == 0 then
      redis.pcall('ZREM', awaiting, inbox)
      return
    end
    redis.pcall('ZADD', awaiting, 'GT', now + keep, inbox)
    if redis.call('PTTL', awaiting) < keep then
      redis.call('PEXPIRE', awaiting, keep)
    end
  end

  -- wake tells all who wait. Whom that does not reach comes again by itself.
  function s.wake()
    for _, inbox in ipairs(redis.pcall('ZRANGE', awaiting, 0, -1)) do
      redis.pcall('PUBLISH', 'quorumlock:inbox:' .. inbox, 'counted 0 ' .. #inbox .. ' ' .. inbox .. name)
    end
    redis.call('DEL', awaiting)
  end

  -- told is the reply. It lists the ids from a place on, at most a thousand of them, if any: more
  -- would keep the server from others for too long.
  function s.told(done, recovering, from)
    local reply = {
      done and 1 or 0, s.generation, s.count, s.since, s.last, s.over, s.whole and 1 or 0, s.size,
      recovering and recovering[2] or 0, recovering and recovering[3] or 0, s.born,
    }
    if from then
      for _, id in ipairs(redis.call('ZRANGE', ids, from, from + 999)) do
        reply[#reply + 1] = id
      end
    end
    return reply
  end

  return s
end
