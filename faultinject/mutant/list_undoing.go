package mutant

// undoing has the mutants of what keeps locks from being left behind.
var undoing = []Mutant{
	{
		Name: "undo-where-granted-only",
		Rule: "A round is undone on each node that may have seen it, also where the outcome is unknown.",
		Then: "An acquisition that runs after its timeout leaves a lock behind.",
		Edits: []Edit{{
			Old: `	g.engine.Nodes.Send(calls, nodes, func(`,
			New: `	for i, r := range g.refusals.all() {
		if nodes.Has(i) && r.Err != nil {
			nodes = nodes.Without(i)
			defer to.Answer(calls.To(i), &node.Reply{Outcome: node.Absent})
		}
	}
	g.engine.Nodes.Send(calls, nodes, func(`,
		}},
	},
	{
		Name: "late-is-unsent",
		Rule: "A call that is overdue may have reached the node.",
		Then: "It is not undone.",
		Edits: []Edit{{
			Old: `s.fail(sent, node.ErrTimeout, nil, false)`,
			New: `s.fail(sent, node.ErrTimeout, nil, true)`,
		}},
	},
	{
		Name: "undo-once",
		Rule: "An undo that fails is tried again.",
		Then: "A grant on a node that was unreachable then remains.",
		Edits: []Edit{{
			Old: `	s.kept = append(s.kept, c)
	s.armRetryLocked()`,
			New: `	s.dropped++`,
		}},
	},
	{
		Name: "undo-before-acquire",
		Rule: "An undo is never sent before what it undoes.",
		Then: "The release finds nothing, and then the acquisition is granted.",
		Edits: []Edit{{
			Old: `	if s.health.down && s.busy && !s.closed {`,
			New: `	if s.health.down && s.busy && !s.closed && s.nodes == nil {`,
		}},
	},
	{
		Name: "undo-overtakes",
		Rule: "Operations are sent to a node in the order in which they were submitted.",
		Then: "A release overtakes the renewal before it, which puts the lock back.",
		Edits: []Edit{{
			Old: `	if c.Front {`,
			New: `	if c.Front || c.Until > 0 {`,
		}, {
			Old: `			return i + 1`,
			New: `			return 0 * i`,
		}},
	},
	{
		Name: "heal-not-undone",
		Rule: "A lease is released also on nodes that only its renewals have reached.",
		Then: "A node that was down at first keeps the lock after its release.",
		Edits: []Edit{{
			Old: `	g.expose(g.engine.Nodes.Send(&r.calls, g.engine.Nodes.All(), r.refused))
`,
			New: `	g.engine.Nodes.Send(&r.calls, g.engine.Nodes.All(), r.refused)
`,
		}},
	},
	{
		Name: "renewal-after-release",
		Rule: "Once the release of an owner is queued, no renewal of it is.",
		Then: "The renewal puts the released lock back.",
		Edits: []Edit{
			{
				Old: `	case g.state != stateHeld:
		return nil
	case g.lease.leaked:`,
				New: `	case g.lease.leaked:`,
			},
			{
				Old: `	g.engine.scheduler.remove(g)
`,
				New: ``,
			},
		},
	},
	{
		Name: "no-undo-when-the-caller-leaves",
		Rule: "An undo does not depend on the caller's context.",
		Then: "A cancelled Acquire leaves its locks behind.",
		Edits: []Edit{{
			Old: `	case <-ctx.Done():
		a.rollBack()`,
			New: `	case <-ctx.Done():`,
		}},
	},
	{
		Name: "node-stays-down",
		Rule: "A node that failed is asked again when it answers.",
		Then: "A client whose nodes were all down once gets no lock for minutes.",
		Edits: []Edit{{
			Old: `h.probeAt = now + quorum.Backoff(`,
			New: `h.probeAt = now + 1000*quorum.Backoff(`,
		}},
	},
}
