-- Note that a client uses a list of nodes, unless others are in use that the client does not know; or read them.
--
-- KEYS[1]    the lists in use: a hash. A field has the terms of the clients and the addresses: a line each. The
--            terms are the version of the protocol, the oldest one beside which they work, MaxTTL, MaxClockSkew and
--            the recovery in ms. The value has the end of the use in ms, the client that used it last, and the ids
-- KEYS[2]    the marker
-- ARGV[1]    how long the list counts as in use, in ms; 0 not to note it
-- ARGV[2]    the client, for people
-- ARGV[3]    the id that the node gets if it has none, or ''
-- ARGV[4]    the terms, and the addresses of the list: a line each
-- ARGV[5]    the ids of these: a line each, empty if the client does not know it
-- ARGV[6...] terms with addresses, and ids of other lists: the client knows that they agree with its own
-- Reply      {id, terms and addresses, ids, client, left, ...}: the id of the node, and the lists in use that the
--            client does not know, each with how long it still counts, in ms. The list is noted if there are none
--
-- The id is in the marker, since that never expires. A list with the same addresses and terms is an earlier self of the list.

local call, lists, life, own = redis.call, KEYS[1], tonumber(ARGV[1]), ARGV[4]
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local id = call('HGET', KEYS[2], 'id')
if not id and ARGV[3] ~= '' then
  id = ARGV[3]
  call('HSET', KEYS[2], 'id', id)
end

local known = {}
for i = 6, #ARGV, 2 do
  known[ARGV[i] .. '\t' .. ARGV[i + 1]] = true
end
local reply, longest = {id or ''}, life
local fields = call('HKEYS', lists)
local values = fields[1] and call('HMGET', lists, unpack(fields)) or {}
for i, field in ipairs(fields) do
  local value = values[i]
  local first = string.find(value, '\n', 1, true)
  local second = string.find(value, '\n', first + 1, true)
  local left, ids = string.sub(value, 1, first - 1) - now, string.sub(value, second + 1)
  if left <= 0 then
    if life > 0 then
      call('HDEL', lists, field)
    end
  elseif field ~= own then
    longest = math.max(longest, left)
    if not known[field .. '\t' .. ids] then
      local n = #reply
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = field, ids, string.sub(value, first + 1, second - 1), left .. ''
    end
  end
end
if life > 0 and #reply == 1 then
  call('HSET', lists, own, (now + life) .. '\n' .. ARGV[2] .. '\n' .. ARGV[5])
  call('PEXPIRE', lists, longest)
end
return reply
