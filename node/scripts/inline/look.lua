-- Is the node open to clients with this recovery and this TTL? Usually the marker says so, under the identity
-- that the server still has. Otherwise guard finds out. The identity is at a place that the client
-- knows on a server without replicas, and is searched for on any other.
local info = call('INFO', 'replication')
time, seal = call('TIME'), seal or call('HGET', MARKER, 'open')
open = seal == string.sub(info, FROM, TO) .. SEAL
if not open and seal and (tonumber(string.sub(seal, 56)) or 0) >= RECOVERY then
  local from = string.find(info, 'master_replid:', 1, true) or 1
  open = string.sub(seal, 1, 54) == string.sub(info, from, from + 53)
end
open = open and ttl - MAX_TTL <= 0
