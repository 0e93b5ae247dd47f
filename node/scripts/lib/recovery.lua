-- guard reads the node's marker, and replaces it if it is missing or from an earlier life of the
-- server. It returns the node's clock in us, and two replies, of which the caller gives at most
-- one:
--
--   {'SETTINGS', max_ttl, max_skew}  the client has other limits than these
--   {'RECOVERING', left, restarted}  no new rights for left ms
--
-- Its fourth result is the end of the last recovery, in us, if that is over.
--
-- Once the node is open, one field of the marker says so, for scripts that read nothing else. That
-- field, open, holds the identity and the limits for which it is true. A change of the limits and a
-- recovery empty it.
--
-- The identity is read in the script that acts on it: an identity that was read earlier could be
-- that of a server that has restarted since. A new marker keeps the limits of the old one,
-- whichever client finds it, since grants made under those limits may still be held.
--
-- For a server that shows scripts no identity, the client puts a constant here that begins with
-- unseen. Then only a lost marker shows a loss. A marker with an identity shows that others see what
-- this client does not: it gets an error, since in turns they would make the node recover for ever.
local function guard(max_ttl, max_skew)
  local info = redis.call('INFO', 'replication')
  local _, before = string.find(info, 'master_replid:', 1, true)
  local identity = string.sub(info, before + 1, before + 40)
  local marker = redis.call('HMGET', 'quorumlock:node', 'identity', 'until', 'max_ttl', 'max_skew', 'open')
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local known, over = marker[1], tonumber(marker[2])
  local whole = known and over and marker[3] and marker[4]
  if string.sub(identity, 1, 6) == 'unseen' and whole and known ~= '' and known ~= identity then
    return now, nil, {err = 'UNSEEN other programs see the identity of this server, or it was seen before: give all programs the same way to it; if none uses it, delete the marker of the node'}
  end

  local refusal
  if whole and (marker[3] ~= max_ttl or marker[4] ~= max_skew) then
    max_ttl, max_skew = marker[3], marker[4]
    refusal = {'SETTINGS', tonumber(max_ttl), tonumber(max_skew)}
  end
  if whole and known == identity then
    if refusal then
      return now, refusal
    elseif over <= now then
      local open = 'master_replid:' .. identity .. ' ' .. max_ttl .. ' ' .. max_skew
      if marker[5] ~= open then
        redis.pcall('HSET', 'quorumlock:node', 'open', open) -- if this fails, a later call repeats it
      end
      return now, nil, nil, over
    end
    local restarted = tonumber(redis.call('HGET', 'quorumlock:node', 'restarted')) or 0
    return now, nil, {'RECOVERING', math.ceil((over - now) / 1000), restarted}
  end

  local length, restarted = max_ttl + max_skew, known and 1 or 0
  if whole and over > now then -- the limits were changed before: earlier grants may last longer
    length = math.max(length, math.ceil((over - now) / 1000))
  end
  -- It uses pcall, since a node that is out of memory must still serve renewals.
  local written = redis.pcall('HSET', 'quorumlock:node', 'identity', identity,
    'until', now + length * 1000, 'max_ttl', max_ttl, 'max_skew', max_skew, 'restarted', restarted, 'open', '')
  if type(written) == 'table' then
    return now, refusal, written
  end
  return now, refusal, {'RECOVERING', length, restarted}
end
