-- Read whether the work of a name is done, and record that it is.
--
-- KEYS[1]  the name
-- ARGV[1]  the client's MaxTTL in ms
-- ARGV[2]  its MaxClockSkew in ms
-- ARGV[3]  the text of the record; '' to read it
-- ARGV[4]  how long the record lives at least, in ms
-- Reply    {text, pttl} if there is a record, {} if not, or a reply of guard
--
-- A record counts in a recovery too: it can only be true. That a record is absent proves nothing then, since the node
-- may have forgotten it. A record never gets shorter, because a copy of it may arrive late, in the next window.

local _, refusal, recovering = guard(ARGV[1], ARGV[2])
if refusal then
  return refusal
end
local record = key('once', KEYS[1])
local text, left = redis.call('GETRANGE', record, 0, -1), redis.call('PTTL', record)
if ARGV[3] ~= '' and left < tonumber(ARGV[4]) then
  redis.call('SET', record, ARGV[3], 'PX', ARGV[4])
  text, left = ARGV[3], tonumber(ARGV[4])
end
if text ~= '' then
  return {text, left}
end
return recovering or {}
