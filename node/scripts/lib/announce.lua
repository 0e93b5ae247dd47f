-- announce tells Redisson's clients that a lock was released, with their message on their channel.
-- The release succeeds even if this user must not publish there.
local function announce(name)
  local tag = string.find(name, '{', 1, true) and name or '{' .. name .. '}'
  redis.pcall('PUBLISH', 'redisson_lock__channel:' .. tag, '0')
end
