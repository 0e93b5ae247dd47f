-- Is the node open to clients with these limits? Usually the marker says so, under the identity
-- that the server still has. Otherwise guard finds out. The identity is at a place that the client
-- knows on a server without replicas, and is searched for on any other.
local info, seal = call('INFO', 'replication'), call('HGET', 'quorumlock:node', 'open')
time = call('TIME')
open = seal == string.sub(info, FROM, TO) .. LIMITS
if seal and not open then
  local from = string.find(info, 'master_replid:', 1, true) or 1
  open = seal == string.sub(info, from, from + 53) .. LIMITS
end
