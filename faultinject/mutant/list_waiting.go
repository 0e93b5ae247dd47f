package mutant

// waiting has the mutants of queues, wakes, and leases that are handed over.
var waiting = []Mutant{
	{
		Name: "hand-over-of-what-was-released",
		Rule: "No lease is handed over once its release was sent.",
		Then: "One node is free already, another client takes it with a second one, and the waiter who got the lease holds it too.",
		Edits: []Edit{{
			Old: `		l.end(ErrReleased)
`,
			New: `		l.end(ErrReleased)
		g.releaseEverywhere(now, nil)
`,
		}},
	},
	{
		Name: "hand-over-without-an-end",
		Rule: "The context of a former holder ends before the lease is handed over.",
		Then: "Two go on.",
		Edits: []Edit{{
			Old: `		l.end(ErrReleased)
`,
			New: "",
		}},
	},
	{
		Name: "hand-over-with-the-same-token",
		Rule: "A holder that is handed a lease gets a token of its own.",
		Then: "A resource cannot tell it from the former holder.",
		Edits: []Edit{{
			Old: `next.start(g, s, l.token+1, now)`,
			New: `next.start(g, s, l.token, now)`,
		}},
	},
	{
		Name: "hand-over-beyond-the-block",
		Rule: "A lease is handed over as long as its block of tokens has another one.",
		Then: "The next client has got that token, or will.",
		Edits: []Edit{{
			Old: `if g.lease.token >= g.endOfTokens() {`,
			New: `if g.lease == nil {`,
		}},
	},
	{
		Name: "block-not-reserved",
		Rule: "The fence of a block of tokens is its end.",
		Then: "The holder that was handed the lease and the next grant have the same token.",
		Edits: []Edit{{
			Old: `op.Token, op.Reserve = a.proposal.Token(), a.proposal.End()-a.proposal.Token()`,
			New: `op.Token = a.proposal.Token()`,
		}},
	},
	{
		Name: "wake-before-its-denial",
		Rule: "A wake that comes before the denial of the attempt it belongs to is kept.",
		Then: "The waiter believes the denial, which is older, and sleeps on.",
		Edits: []Edit{{
			Old: `	f.expect(i, after(until, time.Duration(max(rank, 0))*spread))`,
			New: `	f.releasedAt, f.freeAt[i] = never, after(until, time.Duration(max(rank, 0))*spread)`,
		}},
	},
	{
		Name: "no-recheck",
		Rule: "A waiter tries again after a second, whatever it expects.",
		Then: "A wake that was lost, or reached a frozen waiter, was the last.",
		Edits: []Edit{{
			Old: `	next := min(after(f.attemptAt, recheck), after(f.releasedAt, f.grace))`,
			New: `	next := after(f.releasedAt, f.grace)`,
		}},
	},
	{
		Name: "release-wakes-nobody",
		Rule: "A release wakes the first waiter.",
		Then: "It sleeps for as long as the lock might have lasted.",
		Edits: []Edit{{
			Old: `	m.wakeAll(op.Names, op.Waiter.staying())`,
			New: `	if op.Waiter.Keep > 0 {
		m.wakeAll(op.Names, op.Waiter.staying())
	}`,
		}},
	},
	{
		Name: "leaver-stays",
		Rule: "A waiter that gives up leaves the queues.",
		Then: "The wake that the others need goes to a waiter that has left.",
		Edits: []Edit{{
			Old: `		t.queues.engine.Nodes.Leave(i, t.names, t.nodeID, t.waiter.spec.Slots.OnNodes(), t.queues.EntryTTL())
`,
			New: ``,
		}, {
			Old: `	if !again {
		r.queues.engine.Nodes.Leave(i, []string{m.Name}, m.Waiter, r.queues.env.Slots.OnNodes(m.Name), r.queues.EntryTTL())
	}
`,
			New: ``,
		}},
	},
	{
		Name: "next-in-line-not-told",
		Rule: "A waiter that gives up at the head of the local queue wakes the next.",
		Then: "It waits for ever.",
		Edits: []Edit{{
			Old: `	if first && q.head != nil && q.head.mayAttempt() {`,
			New: `	if first && q.head != nil && q.head.mayAttempt() && q.head.attempts > 0 {`,
		}},
	},
	{
		Name: "line-not-told-of-the-end",
		Rule: "The end of a lease tells the client's own line.",
		Then: "It waits for the rest of the TTL, or for ever.",
		Edits: []Edit{{
			Old: `		q.head.stale = true
		q.head.nudge()
`,
			New: ``,
		}},
	},
	{
		Name: "entry-too-short",
		Rule: "An entry outlives the next attempt of its waiter.",
		Then: "The release finds no queue, and wakes no waiter.",
		Edits: []Edit{{
			Old: `	return (3*RecheckInterval + 2*qs.engine.Timeout).Truncate(time.Millisecond)`,
			New: `	return (RecheckInterval / 5).Truncate(time.Millisecond)`,
		}},
	},
	{
		Name: "silent-head-keeps-its-privilege",
		Rule: "A head that was woken and does not come loses its privilege.",
		Then: "A waiter that is frozen, or has died silently, keeps all others from a free lock.",
		Edits: []Edit{{
			Old: `		rest := e.woken + wakePrivilege(e.id) - m.clock.Now()`,
			New: `		rest := max(e.woken+wakePrivilege(e.id)-m.clock.Now(), basePrivilege)`,
		}},
	},
	{
		Name: "turns-without-tickets",
		Rule: "Nodes sort waiters by their tickets.",
		Then: "Each has an order of its own, and the first waiters wait for the last.",
		Edits: []Edit{{
			Old: `		return cmp.Or(cmp.Compare(a.ticket, b.ticket), cmp.Compare(a.id, b.id))`,
			New: `		return cmp.Or(-cmp.Compare(a.ticket, b.ticket), cmp.Compare(a.id, b.id))`,
		}},
	},
}
