-- Note in an index until when a slot is held, and let the index live as long, or (XX) that the slot is free. It uses pcall: a
-- release or a renewal must succeed on a node without memory. A user that does not wait may lack the right, and then the index
-- would be wrong.
if type(redis.pcall('ZADD', index, bound, ends, number)) ~= 'number' then
  redis.pcall('DEL', index)
end
if bound == 'GT' then
  redis.pcall('PEXPIRE', index, RECOVERS)
end
