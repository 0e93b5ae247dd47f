-- guard reads the node's marker, and replaces it if it is missing or from an earlier life of the
-- server. recovery is how long a node that has lost its memory gives this client no new rights, in
-- ms. It returns the node's clock in us, and a reply, if there must be one:
--
--   {'RECOVERING', left, restarted}  no new rights for left ms
--
-- The marker says since when the node remembers everything. It does not say for how long the node
-- recovers: that depends on what other clients may have been granted before the loss, which each
-- client knows by its configuration. A node that has lost its marker cannot know it.
--
-- Once the node is open, one field of the marker says so, for scripts that read nothing else. That
-- field, open, holds the identity, and the longest recovery that is over. A new marker empties it.
--
-- The marker has the version of the protocol. A program that raises it empties open as well.
--
-- The identity is read in the script that acts on it: an identity that was read earlier could be
-- that of a server that has restarted since.
--
-- For a server that shows scripts no identity, the client puts a constant here that begins with
-- unseen. Then only a lost marker shows a loss. A marker with an identity shows that others see what
-- this client does not: it gets an error, since in turns they would make the node recover for ever.
local function guard(recovery)
  local info = redis.call('INFO', 'replication')
  local _, before = string.find(info, 'master_replid:', 1, true)
  local identity = string.sub(info, before + 1, before + 40)
  local marker = redis.call('HMGET', MARKER, 'identity', 'since', 'open', 'restarted', 'version')
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  if marker[5] and marker[5] ~= '1' then
    return now, {err = 'VERSION the node is in use by programs with protocol ' .. marker[5] .. ', and this program speaks protocol 1: see docs/upgrading.md'}
  end
  local known, since = marker[1], tonumber(marker[2])
  if string.sub(identity, 1, 6) == 'unseen' and known and since and known ~= '' and known ~= identity then
    return now, {err = 'UNSEEN other programs see the identity of this server, or it was seen before: give all programs the same way to it; if none uses it, delete the marker of the node'}
  end

  if since and known == identity then
    local over = since == 0 and 0 or since + recovery * 1000 -- 0 if it was opened
    if over > now then
      return now, {'RECOVERING', math.ceil((over - now) / 1000), tonumber(marker[4]) or 0}
    end
    local open, seal = marker[3] or '', 'master_replid:' .. identity
    if string.sub(open, 1, 54) ~= seal or (tonumber(string.sub(open, 56)) or 0) < tonumber(recovery) then
      redis.pcall('HSET', MARKER, 'open', seal .. ' ' .. recovery) -- if this fails, a later call repeats it
    end
    return now
  end

  local restarted = known and 1 or 0
  -- It uses pcall, since a node that is out of memory must still serve renewals.
  local written = redis.pcall('HSET', MARKER, 'identity', identity, 'since', now, 'restarted', restarted, 'open', '', 'version', 1)
  if type(written) == 'table' then
    return now, written
  end
  return now, {'RECOVERING', tonumber(recovery), restarted}
end

-- limits returns the client's MaxTTL and MaxClockSkew in ms, from a text with a space between them.
local function limits(text)
  local max_ttl, max_skew = string.match(text, '^(%d+) (%d+)$')
  return tonumber(max_ttl), tonumber(max_skew)
end
