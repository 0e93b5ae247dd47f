-- latches reads the state of a latch and returns the functions on it. A latch has three keys:
--
--   latch     hash: generation, the token of the last deletion; count, the count it was set to;
--             since, the token with which it was set; last, the largest token of any operation;
--             whole, the loss of memory after which its state was given back; born, when
--             the node learned that the latch is set, in us of the node's clock
--   latched   sorted set of the ids that have counted down, at most count. All have the same score, so
--             they are in the order of their bytes
--   awaiting  sorted set of the inboxes of the waiting clients, by deadline, in ms
--
-- An operation that sets the latch, or finds it set, makes the first two live for its TTL at least.
-- awaiting lives until its last deadline.
local function latches(name)
  local meta, ids, awaiting = key('latch', name), key('latched', name), key('awaiting', name)
  local found = redis.call('HMGET', meta, 'generation', 'count', 'since', 'last', 'whole', 'born')
  local lost = tonumber(redis.call('HGET', MARKER, 'since')) or 0
  local s = {
    generation = tonumber(found[1]) or 0, count = tonumber(found[2]) or 0, since = tonumber(found[3]) or 0,
    last = tonumber(found[4]) or 0, lost = lost, whole = lost ~= 0 and tonumber(found[5]) == lost,
    born = tonumber(found[6]) or 0,
    size = redis.call('ZCARD', ids), -- everything is read before the first write: a key of another type fails here
  }

  -- plausible reports whether the node accepts a token, in us. Locks have the same rule.
  function s.plausible(token, now, max_ttl, max_skew)
    return token <= now + max_skew * 1000 and token > now - max_ttl * 1000
  end

  -- live extends the life of the latch to at least ms from now.
  function s.live(ms)
    for _, k in ipairs({meta, ids}) do
      if redis.call('PTTL', k) < ms then
        redis.call('PEXPIRE', k, ms)
      end
    end
  end

  -- begin forgets the latch and begins another generation. The key keeps its expiry, so that one lives for as long at least.
  function s.begin(generation)
    redis.call('HSET', meta, 'generation', generation)
    redis.call('HDEL', meta, 'count', 'since', 'last', 'whole', 'born')
    redis.call('DEL', ids)
    s.generation, s.count, s.since, s.last, s.whole, s.born, s.size = tonumber(generation), 0, 0, 0, false, 0, 0
  end

  -- set sets the latch.
  function s.set(count, since, now)
    if s.born == 0 then
      s.born = now
    end
    redis.call('HSET', meta, 'generation', s.generation, 'count', count, 'since', since, 'born', s.born)
    s.count, s.since = tonumber(count), tonumber(since)
  end

  -- note records the token of an operation.
  function s.note(token)
    if token > s.last then
      redis.call('HSET', meta, 'last', token)
      s.last = token
    end
  end

  -- refill records that clients gave back the state that the node had forgotten.
  function s.refill()
    redis.call('HSET', meta, 'whole', lost)
    s.whole = true
  end

  -- add counts down for the ids in ARGV, from index first on, until there are count of them. A latch of
  -- count ids is done, and one reply has to list them all.
  function s.add(first)
    for i = first, #ARGV do
      if s.size < s.count then
        s.size = s.size + redis.call('ZADD', ids, 'NX', 0, ARGV[i])
      end
    end
  end

  -- await records an inbox for keep ms, or removes it if keep is 0. It also removes the inboxes
  -- that are past their deadline. It uses pcall: a waiting client asks again by itself, so the call
  -- must not fail because the node is out of memory or the user lacks a right.
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

  -- wake tells all waiting clients. A client that the message does not reach asks again by itself.
  function s.wake()
    for _, inbox in ipairs(redis.pcall('ZRANGE', awaiting, 0, -1)) do
      redis.pcall('PUBLISH', 'quorumlock:inbox:' .. inbox, 'counted 0 ' .. #inbox .. ' ' .. inbox .. name)
    end
    redis.call('DEL', awaiting)
  end

  -- told makes the reply. It has the ids if lists is set.
  function s.told(done, recovering, lists)
    local reply = {
      done and 1 or 0, s.generation, s.count, s.since, s.last, s.lost, s.whole and 1 or 0, s.size,
      recovering and recovering[2] or 0, recovering and recovering[3] or 0, s.born,
    }
    if lists then
      for _, id in ipairs(redis.call('ZRANGE', ids, 0, -1)) do
        reply[#reply + 1] = id
      end
    end
    return reply
  end

  return s
end
