-- raise sets the fences of the names to a token, for life ms past its time.
local function raise(names, token, life)
  local expiry = math.floor(token / 1000) + life
  for _, name in ipairs(names) do
    redis.call('SET', key('fence', name), token, 'PXAT', expiry)
  end
end
