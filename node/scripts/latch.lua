-- Read a latch; set it, count it down, and give back lost state.
--
-- KEYS      the name of the latch, which is not used; its three keys; the marker; the
--           fences, which are not used
-- ARGV[1]   TTL in ms
-- ARGV[2]   recovery of the client in ms
-- ARGV[3]   its limits: see limits
-- ARGV[4]   token, in us of the client's clock, or 0 if exact
-- ARGV[5]   1 if exact: the operation is only for the generation in ARGV[6], and the state of an
--           earlier one is void. Else it is for the generation on the node, if that began before
--           the token
-- ARGV[6]   generation
-- ARGV[7]   count to set if the latch is not set, or 0
-- ARGV[8]   token with which it was set; the node keeps the smallest that it gets
-- ARGV[9]   flags: f if it is set for the first time, c if enough nodes have that count, v if
--           the state of an earlier generation is deleted even if nothing is set, l if the ids
--           are listed in the reply
-- ARGV[10]  if not 0: the ids below are all that other nodes know, for the recovery that
--           began then
-- ARGV[11]  inbox of a waiting client, or ''
-- ARGV[12]  how long the inbox is kept, in ms
-- ARGV[13..] ids that count down
-- Reply     {1 or 0, generation, count, since, last, lost, whole, size, left, restarted, born, id, ...}
--           the state of the latch after the operation: 1 if it was done, 0 if nothing was. The
--           node gives no rights for left ms
--           {'CLOCK', now}  the token is too far from the node's clock, in us; or the generation, or the
--           token in ARGV[8], is too far ahead of it: a loss after that would seem to precede it
--           and the replies of guard

-- include lib/key
-- include lib/recovery
-- include lib/latch
local ttl, max_ttl, max_skew = tonumber(ARGV[1]), limits(ARGV[3])
local token, exact, generation = tonumber(ARGV[4]), ARGV[5] == '1', tonumber(ARGV[6])
local count, flags = tonumber(ARGV[7]), ARGV[9]

local now, recovering = guard(ARGV[2])
if recovering and recovering.err then
  return recovering
end
local latch = latches(KEYS[1])
if not exact and not latch.plausible(token, now, max_ttl, max_skew)
  or math.max(generation, tonumber(ARGV[8])) > now + max_skew * 1000 then
  return {'CLOCK', now}
end

local void = exact and latch.generation < generation
local here = not void and latch.count or 0
local serves = exact and latch.generation <= generation or not exact and latch.generation < token
local sets = serves and count > 0 and (here == 0 or here ~= count and string.find(flags, 'c', 1, true))
if sets and recovering and string.find(flags, 'f', 1, true) then
  return recovering
end
local voids = serves and void and string.find(flags, 'v', 1, true)
if voids and count == 0 then
  latch.wake()
  latch.begin(ARGV[6])
  latch.live(ttl)
  void = false
end
if count > 0 then
  serves = serves and (sets or here == count)
else
  serves = serves and not void and (#ARGV < 13 or here > 0)
end

if serves and (sets or here > 0) then
  local before = latch.size
  if void then
    latch.wake()
    latch.begin(ARGV[6])
    before = 0
  end
  if sets or count > 0 and tonumber(ARGV[8]) < latch.since then
    latch.set(ARGV[7], ARGV[8], now)
  end
  latch.add(13)
  if not exact and (sets or latch.size > before) then
    latch.note(token)
  end
  if tonumber(ARGV[10]) ~= 0 and tonumber(ARGV[10]) == latch.lost then
    latch.refill()
  end
  latch.live(ttl)
  if latch.size < latch.count then
    if ARGV[11] ~= '' then
      latch.await(ARGV[11], tonumber(ARGV[12]), math.floor(now / 1000))
    end
  elseif sets or latch.size > before then
    latch.wake()
  end
end
return latch.told(serves, recovering, string.find(flags, 'l', 1, true))
