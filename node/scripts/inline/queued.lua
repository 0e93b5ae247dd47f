-- Note in the marker until when, in ms, the node may have queues: see many. A second more saves writes.
if (tonumber(redis.call('HGET', MARKER, 'queues')) or 0) < ends then
  redis.call('HSET', MARKER, 'queues', ends + 1000)
end
