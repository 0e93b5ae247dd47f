-- Take all names for one owner, or none, and accept its fencing token; or queue its waiter.
--
-- KEYS      the names of the locks; the keys of their queues, of which queue is enough without a
--           waiter; the marker; the fences
-- ARGV[1]   owner
-- ARGV[2]   proposed token, in us of the client's clock
-- ARGV[3]   offsets of the names' fences: see locate
-- ARGV[4]   the last offset of the fence of a single name
-- ARGV[5]   TTL in ms. None, and no more arguments, if it is MaxTTL
-- ARGV[6]   last token of the reserved block: the fence. None, and no more arguments, if the
--           block is one token
-- ARGV[7]   waiter that gets an entry in the queues if this is denied, or none
-- ARGV[8]   its ticket
-- ARGV[9]   how long its entry lives, in ms
-- Reply     1                           granted, and the token was taken
--           {fence}                     granted; the token was not taken: fence is as large
--           {name, owner, pttl, fence}  held by another owner; of several, the longest-lived
--           {name, '', left, fence}     free, but left to another waiter for left ms
--           {'CLOCK', now}              the token is too far from the node's clock, in us
--           {'KEYS'}                    the name has a queue: nothing was done, since keys are missing
--           and the replies of guard. If there is a waiter, its rank follows in the third and fourth:
--           how many waiters stand before it in the queue of that name
--
-- A lock is a hash with one field, its owner: the layout of Redisson's RLock.
--
-- The usual cases come first: one name, an open node, a token that is plausible by whole seconds; no
-- waiter, or one in FIFO order. They use no function, since each run of a script makes its functions
-- anew.

local call, name, owner, token, place, stop = redis.call, KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ttl, last, waiter = ARGV[5] or LONGEST, ARGV[6] or token, ARGV[7]
local open, time, seal, oldest, newest, reply
-- include inline/look
-- include inline/plausible
if plausible and not KEYS[7] then
  local queue, free = KEYS[2], nil
  if not waiter then
    free = call('EXISTS', name, queue) == 0
  elseif FAIR then
    -- include inline/wait
  end
  if free then
    -- include inline/take
    return reply
  end
end

-- include inline/admit
-- include lib/key
-- include lib/fence
-- include lib/put
-- include lib/queue
-- include lib/contend
local names = first(4, 2)
locate(names, place)
return contend(now, names, owner, ttl, token, last, FAIR, KEYS[5], waiter, ARGV[8], ARGV[9])
