-- Note in the marker until when, in ms, the node may have queues: see many. A second more saves writes. It uses pcall, since
-- the queue exists by now and must get its end, also beside a marker of another type.
if (tonumber(redis.pcall('HGET', MARKER, 'queues')) or 0) < ends then
  redis.pcall('HSET', MARKER, 'queues', ends + 1000)
end
