package mutant

// losses has the mutants of leases that are taken away, and of the errors that say so.
var losses = []Mutant{
	{
		Name: "tombstone-behind-the-holder",
		Rule: "A renewal looks for the owner's tombstone, also where another holds the name now.",
		Then: "A holder that was forced off does not learn it while the next one has the lock.",
		Kind: "tampering",
		Edits: []Edit{{
			File: "node/memory_ops.go",
			Old:  `		case m.hasTombstone(name, op.Owner): // even`,
			New:  `		case !held && m.hasTombstone(name, op.Owner): // even`,
		}},
	},
	{
		Name: "taken-and-goes-on",
		Rule: "A lease ends when a majority of the nodes name one other owner.",
		Then: "Two leases are valid for up to a TTL after names were deleted by hand.",
		Kind: "tampering",
		Edits: []Edit{{
			File: "internal/lease/renewal.go",
			Old:  `quorum.Usurper(r.holders()); ok {`,
			New:  `quorum.Usurper(r.holders()); ok && g == nil {`,
		}},
	},
	{
		Name: "one-denial-takes",
		Rule: "Fewer nodes than a majority do not show that another owner has the lock.",
		Then: "A node that another holds, or a contender in passing, ends a lease that has its quorum.",
		Edits: []Edit{{
			File: "quorum/usurper.go",
			Old:  `if named >= need {`,
			New:  `if named >= min(need, 1) {`,
		}},
	},
	{
		Name: "former-holder-takes",
		Rule: "An owner that came before a lease does not end it.",
		Then: "A late renewal puts a former holder back on nodes that forgot the lock, and the holder loses it.",
		Kind: "permits",
		Edits: []Edit{{
			File: "internal/lease/renewal.go",
			Old:  `other.Token > g.endOfTokens()`,
			New:  `other.Token >= 0`,
		}},
	},
	{
		Name: "release-hides-a-loss",
		Rule: "A release tells that too few nodes still had the lease.",
		Then: "The holder does not learn that its lock was deleted or evicted.",
		Kind: "tampering",
		Edits: []Edit{{
			File: "releasing.go",
			Old:  `return absent && !reply.Repeated && `,
			New:  `return absent && reply.Repeated && `,
		}},
	},
	{
		Name: "noticed-loss-is-told",
		Rule: "A node that recovers has given the lock to no other since it lost its memory.",
		Then: "Releases report losses after restarts that cost no client its lock.",
		Edits: []Edit{{
			File: "releasing.go",
			Old:  `q.replies[i].Recovering == 0`,
			New:  `q.replies[i].Recovering >= 0`,
		}},
	},
	{
		Name: "late-absence-is-told",
		Rule: "A name that is absent after the lease's time has run out, and was not taken away.",
		Then: "A release in the last instant tells of a loss.",
		Edits: []Edit{{
			Old: `!reply.Repeated && r.lease.grant.engine.Clock.Now() < r.lease.grant.validUntil`,
			New: `!reply.Repeated && r.lease.grant.engine.Clock.Now() >= 0`,
		}},
	},
}
