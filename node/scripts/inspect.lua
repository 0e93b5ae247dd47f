-- Read the holders of the names.
--
-- KEYS      the names of the locks; their readers; the marker; the fences
-- ARGV[1]   offsets of the names' fences: see locate
-- ARGV[2]   recovery of the client in ms
-- Reply     {left, name, owner, pttl, token, ...} for the names that are held. The token is the
--           largest one that the owner may use. For readers it is the fence, and for Redisson's
--           clients 0. The node gives no new rights for left ms; -1 means that its recovery has not
--           begun. For a name with readers, one item stands for all of them, and each reader follows.
--           The error LONG, if that has more than half of the bytes that a client accepts

-- include lib/key
-- include lib/fence
-- include lib/put
-- include lib/readers
local names = first(2, 2)
locate(names, ARGV[1])
local identity = string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
local marker = redis.call('HMGET', MARKER, 'identity', 'since')
local time = redis.call('TIME')
local since = tonumber(marker[2])
local found = {-1}
if marker[1] == identity and since then
  found[1] = since == 0 and 0 or math.max(0, math.ceil((since - time[1] * 1000000 - time[2]) / 1000) + ARGV[2])
end
local size = 0
for _, name in ipairs(names) do
  local holder = redis.call('HKEYS', name)[1]
  if holder then
    local token = holder == readers and fence(name) or token_of(name, holder)
    local function list(owner, left)
      found[#found + 1] = name
      found[#found + 1] = owner
      found[#found + 1] = left
      found[#found + 1] = token
      size = size + #name + #owner + 200 -- as the guard of clients counts them
    end
    list(holder, redis.call('PTTL', name))
    each(name, holder, list)
  end
  if size > 4 * 1024 * 1024 then
    return redis.error_reply('LONG more holders than fit a reply')
  end
end
return found
