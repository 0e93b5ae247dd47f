package mutant

// latches has the mutants of count-down latches: the simulation finds them in cases with a latch.
var latches = []Mutant{
	{
		Name: "latch-of-forgetful-nodes",
		Rule: "A node that has lost its memory is no witness of what was not counted.",
		Then: "A node that forgot a count-down, and one that never heard of it, are a majority without it.",
		Kind: "latches",
		Edits: []Edit{{
			Old: `	case a.Memory == 0 || a.Refilled && a.Generation == v.Generation:`,
			New: `	case a.Told:`,
		}},
	},
	{
		Name: "latch-of-all-generations",
		Rule: "Count-downs from before the deletion of the latch are void.",
		Then: "A node that missed the deletion brings back the ids from before.",
		Kind: "latches",
		Edits: []Edit{{
			Old: `bool { return a.Told && a.Generation == generation }`,
			New: `bool { return a.Told && a.Generation <= generation }`,
		}},
	},
	{
		Name: "latch-counted-by-one-node-less",
		Rule: "A count-down is confirmed when a majority has it.",
		Then: "Readers ask other nodes, and it is missing.",
		Kind: "latches",
		Edits: []Edit{{
			Old: `bool { return v.Known && v.Holders >= l.need }`,
			New: `bool { return v.Known && v.Holders >= l.need-1 }`,
		}, {
			Old: `		case !v.Known || v.Holders < x.latches.need:`,
			New: `		case !v.Known || v.Holders < x.latches.need-1:`,
		}},
	},
	{
		Name: "latch-counted-after-the-call",
		Rule: "A count-down is over when it has returned.",
		Then: "A node that answers late knows of a deletion since, and the id counts in the next generation too.",
		Kind: "latches",
		Edits: []Edit{{
			Old: `	if r.anyGeneration { //`,
			New: `	if r == nil { //`,
		}},
	},
	{
		Name: "latch-merged-too-late",
		Rule: "A count-down is confirmed by a round that sent its id.",
		Then: "A count-down joins a round that is under way, and is confirmed though no node knows of it.",
		Kind: "latches",
		Edits: []Edit{{
			Old: `	if last == nil || last.begun || len(last.members)`,
			New: `	if last == nil || isClosed(last.round.decided) || len(last.members)`,
		}},
	},
	{
		Name: "latch-by-the-clock-alone",
		Rule: "A set or count-down is older than any deletion after it, by every clock.",
		Then: "The late count-down of a client whose clock is fast counts in the generation after its own.",
		Kind: "latches",
		Edits: []Edit{{
			Old: `	return max(x.minusSkew(token), x.seen+1)`,
			New: `	return token`,
		}},
	},
	{
		Name: "latch-node-counts-what-is-late",
		Rule: "A node does not count in a generation that began after the call.",
		Then: "A count-down that was doubled comes when the latch has been deleted and set again.",
		Kind: "latches",
		Edits: []Edit{{
			Old: `	serves := l.generation < op.Token`,
			New: `	serves := op.Token > 0`,
		}},
	},
	{
		Name: "latch-node-wakes-nobody",
		Rule: "A node wakes the waiters when enough ids have counted down.",
		Then: "They look by themselves, after a second.",
		Kind: "latches",
		Edits: []Edit{{
			Old: `	case len(l.ids) >= l.count && news:`,
			New: `	case len(l.ids) > l.count && news:`,
		}},
	},
	{
		Name: "latch-done-one-too-early",
		Rule: "A latch is done by the sizes once a majority has as many ids as it takes.",
		Then: "Those who wait go on before the last has counted down.",
		Kind: "latches",
		Edits: []Edit{{
			File: "quorum/latch.go",
			Old:  `v.alike(a) && a.Size >= v.Count {`,
			New:  `v.alike(a) && a.Size >= v.Count-1 {`,
		}},
	},
	{
		Name: "latch-waiter-never-reads-ids",
		Rule: "If each node lacks ids that others have, the waiters read them and combine them.",
		Then: "All have counted down, no node has all ids, and the waiters wait forever.",
		Kind: "latches",
		Edits: []Edit{{
			File: "quorum/latch.go",
			Old:  `	return v.Count > 0 && (v.Most >= v.Count || sum`,
			New:  `	return v.Count < 0 && (v.Most >= v.Count || sum`,
		}},
	},
	// The rest are for chaos.
	{
		Name: "script-latch-counts-repetitions",
		Rule: "A server keeps the set of the ids that have counted down: one that is repeated counts once.",
		Then: "The latch is done before enough ids have counted down.",
		Real: true,
		Edits: []Edit{{
			Old: `    for i = first, #ARGV do
`,
			New: `    for i = first, #ARGV do
      if ARGV[5] ~= '1' then
        ARGV[i] = ARGV[i] .. '@' .. ARGV[4]
      end
`,
		}},
	},
	{
		Name: "count-down-of-one-node",
		Rule: "A count-down is confirmed once a majority of the nodes has it.",
		Then: "A client that is cut off from the others sees a confirmed count-down that no other client sees.",
		Real: true,
		Edits: []Edit{{
			Old: `bool { return v.Known && v.Holders >= l.need }`,
			New: `bool { return v.Holders > 0 && v.Count > 0 }`,
		}, {
			Old: `		case !v.Known || v.Holders < x.latches.need:
			return r, r.short()`,
			New: `		case v.Holders == 0:
			return r, r.short()`,
		}},
	},
	{
		Name: "script-count-downs-end-early",
		Rule: "A server's knowledge of a latch lives as long as the latch.",
		Then: "Count-downs that were confirmed are forgotten, and a latch that was done is done no more.",
		Real: true,
		Edits: []Edit{{
			Old: `    for _, k in ipairs({meta, ids}) do`,
			New: `    redis.call('PEXPIRE', ids, 200)
    for _, k in ipairs({meta}) do`,
		}},
	},
}
