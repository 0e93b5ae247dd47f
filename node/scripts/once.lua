-- Read whether the work of a name is done, and record that it is.
--
-- KEYS     the name, which is not used; the record; the marker; the fences, which are not used
-- ARGV[1]  recovery of the client in ms
-- ARGV[2]  the text of the record; '' to read it
-- ARGV[3]  how long the record lives at least, in ms
-- Reply    {text, pttl} if there is a record, {} if not, or a reply of guard
--
-- A record counts in a recovery too: it can only be true. That a record is absent proves nothing then, since the node
-- may have forgotten it. A record never gets shorter, because a copy of it may arrive late, in the next window.

-- include lib/recovery
local _, recovering = guard(ARGV[1])
local record = KEYS[2]
local text, left = redis.call('GETRANGE', record, 0, -1), redis.call('PTTL', record)
if ARGV[2] ~= '' and left < tonumber(ARGV[3]) then
  redis.call('SET', record, ARGV[2], 'PX', ARGV[3])
  text, left = ARGV[2], tonumber(ARGV[3])
end
if text ~= '' then
  return {text, left}
end
return recovering or {}
