package mutant

// scripts has the mutants of what runs on Redis servers. Each has a counterpart among the
// others, which the simulation finds.
var scripts = []Mutant{
	{
		Name: "script-no-recovery",
		Rule: "A server that lost its memory gives nothing new for a time.",
		Then: "H holds servers 1 and 2; server 1 restarts; H' takes 1 and 3.",
		Real: true,
		Edits: []Edit{{
			Old: `local length, restarted = max_ttl + max_skew, known and 1 or 0`,
			New: `local length, restarted = 0, known and 1 or 0`,
		}, {
			Old: `if differs or recovering then`,
			New: `if differs or recovering and recovering[2] > 0 then`,
		}},
	},
	{
		Name: "script-identity-not-checked",
		Rule: "The marker counts only with the identity of the server as it runs now.",
		Then: "A restart brings the marker back from the disk, and not the locks behind it.",
		Real: true,
		Edits: []Edit{{
			Old: `if whole and known == identity then`,
			New: `if whole then`,
		}, {
			Old: `open = seal == string.sub(info, FROM, TO) .. LIMITS`,
			New: `open = seal and string.sub(seal, 55) == LIMITS`,
		}},
	},
	{
		Name: "script-unmarked-server-grants",
		Rule: "A server without a marker gives nothing new: whether it is new or has forgotten everything cannot be told.",
		Then: "Server 1 is flushed, and H' takes 1 and 3.",
		Real: true,
		Edits: []Edit{{
			Old: `if differs or recovering then`,
			New: `if differs or recovering and recovering[3] == 1 then`,
		}},
	},
	{
		Name: "script-any-heal-counts",
		Rule: "A renewal tells that the server recovers, so that it counts only as a re-assertion.",
		Then: "H heals on a server that was emptied and counts it, beside H' who had it before.",
		Real: true,
		Edits: []Edit{{
			File: "node/scripts/lib/prolong.lua",
			Old:  `return recovering and {done, recovering[2] or life, recovering[3] or 0} or done`,
			New:  `return done`,
		}},
	},
	{
		Name: "script-release-of-anybody",
		Rule: "A release removes the lock of its own owner only.",
		Then: "The undo of a round that was lost frees the lock of the holder.",
		Real: true,
		Edits: []Edit{{
			Old: `own = own or redis.pcall('HDEL', name, owner)`,
			New: `own = own or redis.pcall('DEL', name)`,
		}, {
			Old: `own = redis.pcall('HDEL', KEYS[1], ARGV[1])`,
			New: `own = redis.pcall('DEL', KEYS[1])`,
		}, {
			Old: `reply = redis.pcall('HDEL', name, owner)`,
			New: `reply = redis.pcall('DEL', name)`,
		}},
	},
	{
		Name: "script-renew-takes-over",
		Rule: "A renewal does not take a name from another owner.",
		Then: "The late renewal of a lease that is over takes the lock from the next holder.",
		Real: true,
		Edits: []Edit{{
			Old: `    elseif holder then
      denial = denial or {name, holder, redis.call('PTTL', name), tonumber(redis.call('GET', key('fence', name)) or 0) or 0}
`,
			New: `    elseif holder then
      redis.call('DEL', name)
      absent[#absent + 1] = name
`,
		}},
	},
	{
		Name: "script-fence-not-told",
		Rule: "A server that knows a token as large as the proposed one says so.",
		Then: "A slow client gets a smaller token than the fast one before it.",
		Real: true,
		Edits: []Edit{{
			File: "node/scripts/lib/contend.lua",
			Old:  `return fence > 0 and {fence} or 1`,
			New:  `return 1`,
		}, {
			File: "node/scripts/inline/take.lua",
			Old:  `reply = {tonumber(before)}`,
			New:  `reply = 1`,
		}},
	},
	{
		Name: "script-slot-held-twice",
		Rule: "A server grants a slot to one owner.",
		Then: "Two have the same permit, and all together one more than there are.",
		Real: true,
		Edits: []Edit{{
			File: "node/scripts/permits_acquire.lua",
			Old:  `  if holder and holder ~= owner then`,
			New:  `  if holder and holder ~= owner and need > 1 then`,
		}},
	},
	{
		Name: "script-reader-beside-a-writer",
		Rule: "A server grants no reader a name that a writer holds.",
		Then: "A reader and a writer have the lock at once.",
		Real: true,
		Edits: []Edit{{
			Old: `  if holder and holder ~= readers then`,
			New: `  if holder and holder ~= readers and ttl < 0 then`,
		}},
	},
	{
		Name: "script-first-reader-frees-the-lock",
		Rule: "A lock is free when its last reader has gone.",
		Then: "The first of two readers to go lets a writer in beside the other.",
		Real: true,
		Edits: []Edit{{
			Old: `    return true, redis.call('HGET', name, readers) and settle(name, now)`,
			New: `    return true, redis.call('DEL', name) == 1`,
		}},
	},
}
