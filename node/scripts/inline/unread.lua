-- End the owner's reading of a name if it is the only reader, and the readers hold the lock: that goes with it. Otherwise
-- unread does it, and reply stays nil. An only reader whose time has passed has let the lock live as long as itself.
local all = redis.pcall('ZRANGE', list, '0', '1')
if #all == 1 and all[1] == owner and redis.pcall('HDEL', name, 'quorumlock:readers') == 1 then
  reply = redis.pcall('DEL', list)
end
