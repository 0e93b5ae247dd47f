-- Note in an index until when a slot is held (GT), and let the index live for a recovery, or that the slot is free (XX). It uses
-- pcall: a release or a renewal must succeed on a node without memory. A user may lack the right, and then the index would be
-- wrong, so it goes.
if type(redis.pcall('ZADD', index, bound, ends, number)) ~= 'number' then
  redis.pcall('DEL', index)
end
if bound == 'GT' then
  redis.pcall('PEXPIRE', index, RECOVERS)
end
