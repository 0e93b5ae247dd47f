-- The rest of acquire: mostly it is not reached, and what it needs is not made.
return contend(now, KEYS, owner, ARGV[2], token, last, life, ARGV[5] == '1', ARGV[8], ARGV[9], ARGV[10])
