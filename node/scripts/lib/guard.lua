-- guard reads the marker of the node, and replaces it where it is missing or of an
-- earlier life of the server. It returns the node's clock in us, and two replies of which
-- the caller gives one or none:
--
--   {'SETTINGS', max_ttl, max_skew}  the client has other limits than these
--   {'RECOVERING', left, restarted}  no new rights for left ms
--
-- Once the node is open, the marker says so in one field, for those who look at nothing else: open is the
-- identity and the limits under which it is. Whatever changes those or begins a recovery empties it.
--
-- The identity is read here, in the script that acts on it: read before, it could be
-- that of a server that has restarted since. The limits of a marker stay when it is
-- replaced, whoever finds it, as what was granted under them may still be held.
local function guard(max_ttl, max_skew)
  local info = redis.call('INFO', 'replication')
  local _, before = string.find(info, 'master_replid:', 1, true)
  local identity = string.sub(info, before + 1, before + 40)
  local marker = redis.call('HMGET', 'quorumlock:node', 'identity', 'until', 'max_ttl', 'max_skew', 'open')
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local known, over = marker[1], tonumber(marker[2])
  local whole = known and over and marker[3] and marker[4]

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
        redis.pcall('HSET', 'quorumlock:node', 'open', open) -- another time, where this fails
      end
      return now
    end
    local restarted = tonumber(redis.call('HGET', 'quorumlock:node', 'restarted')) or 0
    return now, nil, {'RECOVERING', math.ceil((over - now) / 1000), restarted}
  end

  local length, restarted = max_ttl + max_skew, known and 1 or 0
  if whole and over > now then -- limits were changed before, and what was granted may last longer
    length = math.max(length, math.ceil((over - now) / 1000))
  end
  -- pcall, as a node that is out of memory must still serve renewals.
  local written = redis.pcall('HSET', 'quorumlock:node', 'identity', identity,
    'until', now + length * 1000, 'max_ttl', max_ttl, 'max_skew', max_skew, 'restarted', restarted, 'open', '')
  if type(written) == 'table' then
    return now, refusal, written
  end
  return now, refusal, {'RECOVERING', length, restarted}
end
