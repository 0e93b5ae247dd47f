-- raise sets the fences of the names to a token.
local function raise(names, token, life)
  for _, name in ipairs(names) do
    redis.call('SET', key('fence', name), token, 'PXAT', expiry(token, life))
  end
end
