-- key is where something is kept for a lock. The colon keeps the keys of the names '{a}'
-- and 'a' apart.
local function key(kind, name)
  local tag = string.find(name, '{', 1, true) and ':' .. name or '{' .. name .. '}'
  return 'quorumlock:' .. kind .. ':' .. tag
end
