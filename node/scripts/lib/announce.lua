-- announce tells Redisson's clients that a lock was released: the message and the channel are
-- theirs. That nobody may publish there is no failure of the release.
local function announce(name)
  local tag = string.find(name, '{', 1, true) and name or '{' .. name .. '}'
  redis.pcall('PUBLISH', 'redisson_lock__channel:' .. tag, '0')
end
