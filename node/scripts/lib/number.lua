-- later reports whether a number is at least as large as another, both written in decimal
-- without leading zeros: to read such long ones costs more than all else about them.
local function later(a, b)
  return #a > #b or #a == #b and a >= b
end
