-- expiry returns when the fence of a token expires: life ms after the time of the token, in ms.
local expiries = {}
local function expiry(token, life)
  local ms = string.sub(token, 1, -4)
  local at = expiries[ms]
  if not at then
    at = string.format('%.0f', (tonumber(ms) or 0) + life)
    expiries[ms] = at
  end
  return at
end
