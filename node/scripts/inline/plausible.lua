-- Does an open node take the token, by whole seconds? Usually the token is of the second of the node's clock. If this cannot
-- tell, refusal looks at the exact limits. oldest and newest are kept for the next operation of a batch.
if not oldest then
  oldest, newest = time[1] .. '000000', time[1] .. '999999'
end
local plausible = open and OLDEST <= 0 and NEWEST >= 0 and #token == 16 and #last == 16
if plausible and (token < oldest or last > newest) then
  oldest, newest = time[1] + OLDEST .. '000000', time[1] + NEWEST .. '999999'
  plausible = token >= oldest and last <= newest
end
