-- key is the key of one kind that belongs to a name. A name with a hash tag of its own keeps it, and
-- any other name becomes one. The colon keeps the keys of the names '{a}' and 'a' apart.
local function key(kind, name)
  local tag = string.find(name, '^[^{]*{[^}]+}') and ':' .. name or '{' .. name .. '}'
  return 'quorumlock:' .. kind .. ':' .. tag
end
