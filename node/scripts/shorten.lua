-- Release the names after a rest: keep those that the owner holds, as a writer or a reader, for that time at most. This is
-- a release, so it may make a life shorter. It never makes one longer, so a late or repeated one does no harm.
--
-- KEYS      the names of the locks; their readers; the index, if they are slots
-- ARGV[1]   owner
-- ARGV[2]   the rest in ms
-- ARGV[3]   1 if Redisson's clients are told: they look again, and so learn the rest
-- Reply     how many names the owner holds

-- include lib/key
-- include lib/announce
-- include lib/put
-- include lib/readers
-- include lib/book
local owner, rest, own = ARGV[1], tonumber(ARGV[2]), 0
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, name in ipairs(first(2, indexed(KEYS[1]))) do
  local holder, before = redis.call('HKEYS', name)[1], own
  if holder == owner then
    own = own + 1
    if redis.call('PTTL', name) > rest then
      redis.call('PEXPIRE', name, ARGV[2])
      book(name, 'XX', now + rest)
    end
  elseif holder == readers and reading(name, owner, now) then
    own = own + 1
    redis.call('ZADD', key('readers', name), 'XX', 'LT', now + rest, owner)
    local life = longest(name) - now
    redis.call('PEXPIRE', name, life)
    redis.call('PEXPIRE', key('readers', name), life)
  end
  if own > before and ARGV[3] == '1' then
    announce(name)
  end
end
return own
