package mutant

// exclusion has the mutants of a node's decision, and an attempt's, to grant a lock once.
var exclusion = []Mutant{
	{
		Name: "half-is-a-majority",
		Rule: "A majority is more than half of the nodes.",
		Then: "Two holders have two nodes each, of four.",
		Edits: []Edit{
			{Old: `return n/2 + 1`, New: `return (n + 1) / 2`},
			{Old: `case q <= n/2:`, New: `case q < n/2:`},
		},
	},
	{
		Name: "grant-over-another",
		Rule: "A node grants a name only if no other owner has it.",
		Then: "Of two names, the second is taken from its holder.",
		Edits: []Edit{{
			File: "node/memory_ops.go",
			Old:  `m.longestHolder(op.Names, op.place())`,
			New:  `m.longestHolder(op.Names[:1], op.place())`,
		}},
	},
	{
		Name: "renew-takes-over",
		Rule: "A renewal does not take a name from another owner.",
		Then: "The late renewal of a lease that is over takes the lock from the next holder.",
		Edits: []Edit{{
			Old: `		case denial.Name == "":
			denial = h
`,
			New: `
		case denial.Name == "":
			m.locks[name] = lockState{}
`,
		}},
	},
	{
		Name: "release-of-anybody",
		Rule: "A release removes the lock of its own owner only.",
		Then: "The undo of a round that was lost frees the lock of the holder.",
		Edits: []Edit{{
			File: "node/memory_ops.go",
			Old:  `if h, held := m.holder(name); held && h.Owner == op.Owner {`,
			New:  `if _, held := m.holder(name); held {`,
		}},
	},
	{
		Name: "node-forgets-early",
		Rule: "A node keeps a lock for its TTL.",
		Then: "It lets go some percent early, which is more than the allowance for drift.",
		Edits: []Edit{{
			Old: `lockState{owner: op.Owner, expiry: m.clock.Now() + op.TTL}`,
			New: `lockState{owner: op.Owner, expiry: m.clock.Now() + op.TTL - op.TTL/32}`,
		}},
	},
	{
		Name: "owner-for-all-rounds",
		Rule: "Each round has an owner of its own.",
		Then: "The late release of one round deletes the lock that the next round of the same call has got.",
		Edits: []Edit{
			{
				Old: `	attempts int
`,
				New: `	attempts int
	owner    string
`,
			},
			{
				Old: `	r := lease.Request{Began: w.now(), `,
				New: `	r := lease.Request{Owner: &w.owner, Began: w.now(), `,
			},
			{
				Old: `	// Trace records the attempt, or is nil.
`,
				New: `	Owner *string
	// Trace records the attempt, or is nil.
`,
			},
			{
				Old: `	a.grant.attempt = a
`,
				New: `	a.grant.attempt = a
	if r.Owner != nil && *r.Owner == "" {
		*r.Owner = a.grant.owner
	}
	if r.Owner != nil {
		a.grant.owner = *r.Owner
	}
`,
			},
		},
	},
	{
		Name: "owner-for-a-client",
		Rule: "Two owners of one client are two owners.",
		Then: "A client that holds the lock is granted it once more.",
		Edits: []Edit{{
			Old: `append(e.appendID(buf[:0]), s.Label...)`,
			New: `append(append(buf[:0], e.ID+":0"...), s.Label...)`,
		}},
	},
	{
		Name: "unknown-counts",
		Rule: "No answer is no vote.",
		Then: "A denial that was lost on its way is counted as a grant.",
		Edits: []Edit{{
			Old: `	default:
		g.refusals.set(i, r)
		return quorum.Unknown`,
			New: `	default:
		if errors.Is(r.Err, node.ErrTimeout) {
			g.claims.Confirm(i, sent, g.spec.TTL, 0, false)
			return quorum.Granted
		}
		g.refusals.set(i, r)
		return quorum.Unknown`,
		}},
	},
}
