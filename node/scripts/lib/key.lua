-- key returns the key of one kind for a name. The key has the hash tag of the name, or the whole
-- name as its hash tag. The colon keeps the keys of the names '{a}' and 'a' apart.
local function key(kind, name)
  local tag = string.find(name, '^[^{]*{[^}]+}') and ':' .. name or '{' .. name .. '}'
  return 'quorumlock:' .. kind .. ':' .. tag
end

-- first returns the names, which come first in KEYS. Each has as many keys as each says, and fixed keys are there once. A
-- call that declares fewer has one name.
local function first(each, fixed)
  return {unpack(KEYS, 1, math.ceil((#KEYS - fixed) / each))}
end
