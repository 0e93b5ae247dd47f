-- End the owner's reading of a name. Usually it is the only reader, and the lock goes with it.
if not now then
  local time = time or call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local all = redis.pcall('ZRANGE', names[k + 1], 0, 1, 'WITHSCORES')
if #all == 2 and all[1] == owner and all[2] - now > 0 and redis.pcall('HGET', name, 'quorumlock:readers') == '1' then
  reply = redis.pcall('DEL', name, names[k + 1])
  reply = reply == 2 and 1 or reply
else
  reply = rarely().unread(name, owner, now)
end
