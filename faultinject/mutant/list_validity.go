package mutant

// validity has the mutants of when a lease ends.
var validity = []Mutant{
	{
		Name: "expiry-from-the-answer",
		Rule: "A claim lasts for a TTL from before its command was sent.",
		Then: "The answer comes late, and the claim outlives the lock.",
		Edits: []Edit{
			{Old: `a.countVote(i, c.Sent, c.Op.Token, r)`, New: `a.countVote(i, g.engine.Clock.Now(), c.Op.Token, r)`},
			{Old: `r.recordVote(c.Node(), c.Sent, reply)`, New: `r.recordVote(c.Node(), g.engine.Clock.Now(), reply)`},
		},
	},
	{
		Name: "no-drift",
		Rule: "An allowance for clocks of different rates is taken off the TTL.",
		Then: "A slow clock thinks that it has a lock which a fast one has let go.",
		Edits: []Edit{{
			Old: `return percent + driftFixed`,
			New: `return 0 * (percent + driftFixed)`,
		}},
	},
	{
		Name: "valid-with-one-claim-less",
		Rule: "A lease ends when fewer than a quorum of its claims are active.",
		Then: "It goes on with one less, and another gets the others.",
		Edits: []Edit{{
			Old: `if e > until && countFrom(expiries, e) >= need {`,
			New: `if e > until && countFrom(expiries, e) >= max(need-1, 1) {`,
		}},
	},
	{
		Name: "revival",
		Rule: "Nothing revives a lease whose time is over.",
		Then: "A process wakes behind the end of its lease, processes an answer that came before, and acts after the next holder.",
		Edits: []Edit{
			{
				Old: `	if now >= g.validUntil {
		return nil
	}
`,
				New: "",
			},
			{
				Old: `	if now < g.validUntil {
		g.validUntil = max(`,
				New: `	if now >= 0 {
		g.validUntil = max(`,
			},
		},
	},
	{
		Name: "err-without-the-clock",
		Rule: "Whether a lease is valid is decided by the clock, not by a timer that should have fired.",
		Then: "A process that was frozen acts on its lease before the timer ends it.",
		Edits: []Edit{{
			Old: `	case now >= l.grant.validUntil:
		return l.grant.expired("its time ran out")
`,
			New: ``,
		}},
	},
	{
		Name: "end-not-scheduled",
		Rule: "The context of a lease ends when the lease does, whatever the network does.",
		Then: "Its holder is told with the next renewal that is due, or never.",
		Edits: []Edit{{
			Old: `return min(g.validUntil, g.lease.holdLimit(), g.nextClaimExpiry())`,
			New: `return min(g.lease.holdLimit(), g.nextClaimExpiry())`,
		}},
	},
	{
		Name: "grant-without-a-second-look",
		Rule: "A round is won only if a quorum of its claims is still active then.",
		Then: "A process that was frozen in its round gets a lease with an old token, after the next holder.",
		Edits: []Edit{{
			Old: `if p.taken.Result() != Won || p.activeTaken(c, now) < p.taken.Need() {`,
			New: `if p.taken.Result() != Won {`,
		}},
	},
}
