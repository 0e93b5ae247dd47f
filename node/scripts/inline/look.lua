-- Is the node open to clients with these limits? Mostly it has noted so, under the identity that it
-- still has; where it has not, guard finds out. The identity stands where it does on a server without
-- replicas, or else is looked for.
local info, seal = call('INFO', 'replication'), call('HGET', 'quorumlock:node', 'open')
time = call('TIME')
open = seal == string.sub(info, 84, 137) .. LIMITS
if seal and not open then
  local from = string.find(info, 'master_replid:', 1, true) or 1
  open = seal == string.sub(info, from, from + 53) .. LIMITS
end
