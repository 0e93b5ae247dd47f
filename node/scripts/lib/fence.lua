-- The fence of a name is the largest token that the node has taken for it. All fences are in one
-- text: 65,536 places of 16 digits. The client derives the offset of a name's place from the name,
-- so some names share a place. A token that is larger than the place is larger than the fence.
--
-- One text needs no key for each name that is used once, and no expiry.

-- places has the offset of each name's place.
local places = {}

-- locate records the offsets of the names' places, which the client sends as numbers with a space
-- between them.
local function locate(names, offsets)
  local i = 0
  for offset in string.gmatch(offsets, '%d+') do
    i = i + 1
    places[names[i]] = offset
  end
end

-- fence returns the token at a name's place. It returns 0 if the place is empty or damaged, or if
-- the client has not sent the offset.
local function fence(name)
  local at = places[name]
  return at and tonumber(redis.call('GETRANGE', FENCES, at, at + 15)) or 0
end

-- raise sets the places of the names to a token, as text. The caller has compared it with the
-- fences. A token with more digits than a place has was refused, except in a renewal, which needs no
-- fence then: see refusal.
local function raise(names, token)
  if #token <= 16 then
    for _, name in ipairs(names) do
      redis.call('SETRANGE', FENCES, places[name], string.rep('0', 16 - #token) .. token)
    end
  end
end
